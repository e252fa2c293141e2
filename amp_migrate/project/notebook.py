"""A Jupyter notebook as one module: its cells in order are the text, and the new text goes back
into their cells.

Only the `source` of cells that change is spelled anew; no other byte of the file is touched. The
format is nbformat 4:
https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import ast
import codecs
import hashlib
import json
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from amp_migrate.outcome import FileOutcome, LoopOutcome
from amp_migrate.project import json_spans as jsontext
from amp_migrate.project import magics, unread_cells
from amp_migrate.project import notebook_cells as cells
from amp_migrate.project.errors import SourceError
from amp_migrate.project.json_spans import split_lines
from amp_migrate.project.magics import Marker, StandIn
from amp_migrate.project.notebook_cells import Places

_DEFINED = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_OPEN_AND_SAVE = "open it in Jupyter and save it"
# Cell magics that hand their cell to something that is not Python.
_NO_PYTHON = frozenset(
    "! bash cmd html javascript js latex markdown perl ruby script sh svg sx system".split()
)
# Cell magics whose cell calls nothing in the notebook.
_ELSEWHERE = _NO_PYTHON | {
    "file",
    "python",
    "python2",
    "python3",
    "pypy",
    "writefile",
}


@dataclass(frozen=True)
class Cell:
    """One code cell. `number` counts all cells from 1; `start` and `end` hold the JSON value of
    its source.
    """

    number: int
    source: str
    start: int
    end: int
    text: str = ""
    """What the cell adds to the notebook's text."""
    stand_ins: tuple[StandIn, ...] = ()
    read: bool = True
    """False where the cell is left as it is; its text only tells which functions it may call."""
    indent: str = ""
    """Blanks before every line, which IPython takes away."""
    error: str = ""
    """Why its Python cannot be read, with the line."""


@dataclass(frozen=True)
class Notebook:
    """The text of a notebook's code cells, and how to get back."""

    text: str
    raw: str
    digest: str
    cells: tuple[Cell, ...]
    left_out: tuple[LoopOutcome, ...] = ()
    """Cells that may train and that are not read."""
    mark: bytes = b""
    encoding: str = "utf-8"

    def encode(self, text: str) -> bytes:
        """The file's bytes with `text` in its cells. Raises SourceError where they would not hold
        it exactly.
        """
        changes = list(self._changes(text))
        raw = self.raw
        for cell, value in reversed(changes):
            raw = raw[: cell.start] + value + raw[cell.end :]
        if changes and not _same(_read(raw, self.digest, self.mark).text, text):
            raise SourceError(
                "the new program cannot be put back into these cells; please report this"
            )
        return self.mark + raw.encode()

    def placed(self, outcome: FileOutcome) -> FileOutcome:
        """The outcome of the text as that of the notebook: by cell and line, with what was not
        read.
        """
        told = Places.of(self.text).outcome(outcome)
        unread = {one.number: one for one in self.cells if one.error}
        own = (
            unread_cells.named(one, unread) if unread else one
            for one in told.loops
        )
        loops = sorted(
            (*own, *self.left_out),
            key=lambda one: (one.cell or 0, one.line),
        )
        status = (
            "refused"
            if told.status == "unchanged" and self.left_out
            else told.status
        )
        return replace(told, loops=tuple(loops), status=status)

    def _changes(self, text: str) -> Iterator[tuple[Cell, str]]:
        parts = cells.split(text)
        if [number for number, _ in parts] != [
            cell.number for cell in self.cells
        ]:
            raise SourceError(
                "the new program has lost the bounds of its cells; please report this"
            )
        for cell, (_, part) in zip(self.cells, parts, strict=True):
            if part != cell.text:
                yield cell, self._respelled(cell, part)

    def _respelled(self, cell: Cell, part: str) -> str:
        source = magics.restored(part, cell.stand_ins)
        if source is None or not cell.read:
            raise SourceError(
                f"the commands of cell {cell.number} are lost in the new program; please report "
                "this"
            )
        source = _indented(source, cell.indent)
        if not cell.source.endswith("\n"):
            source = source.removesuffix("\n")
        value = jsontext.respelled(self.raw[cell.start : cell.end], source)
        if value is None:
            message = f"the source of cell {cell.number} is spelled as no notebook writer does"
            raise SourceError(f"{message}; {_OPEN_AND_SAVE}, then run again")
        return value


def decode(data: bytes) -> Notebook:
    """Read the bytes of a notebook. A notebook in another language than Python has no text.

    Raises SourceError, with the place, for what is no notebook of version 4.
    """
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        raw = data[len(mark) :].decode()
    except UnicodeDecodeError as error:
        raise SourceError(
            f"not UTF-8, as notebooks are (byte {error.start + len(mark)}); {_OPEN_AND_SAVE}"
        ) from None
    return _read(raw, hashlib.sha256(data).hexdigest()[:12], mark)


def _read(raw: str, digest: str, mark: bytes) -> Notebook:
    try:
        code = list(_code_cells(raw, dict(jsontext.members(raw, 0))))
    except json.JSONDecodeError as error:
        message = f"no JSON, as notebooks are: {error.msg}; mend it, or restore the file"
        raise SourceError(message, error.lineno, error.colno) from None
    except RecursionError:
        raise SourceError(
            f"its JSON is nested too deeply to be read; {_OPEN_AND_SAVE}"
        ) from None
    except ValueError as error:  # a number of too many digits
        raise SourceError(
            f"no JSON that can be read: {error}; {_OPEN_AND_SAVE}"
        ) from None
    marker = Marker(
        digest,
        frozenset(
            name for cell in code for name in _DEFINED.findall(cell.source)
        ),
    )
    read = [_with_text(cell, marker) for cell in code]
    text = "".join(
        f"{cells.separator(cell.number, digest)}\n{cell.text}"
        for cell, _ in read
    )
    left_out = tuple(why for _, why in read if why)
    return Notebook(
        text, raw, digest, tuple(cell for cell, _ in read), left_out, mark
    )


def _code_cells(raw: str, top: Mapping[str, jsontext.Value]) -> Iterator[Cell]:
    if "cells" not in top:
        old = "worksheets" in top
        what = (
            "a notebook of an old format (nbformat 3)"
            if old
            else "no notebook: it has no list of cells"
        )
        way = (
            "`jupyter nbconvert --to notebook --inplace` makes it a new one"
            if old
            else "exclude it"
        )
        raise SourceError(f"{what}; {way}", 1, 1)
    metadata = top["metadata"].value if "metadata" in top else {}
    if not _is_python(metadata):
        return
    for number, value in enumerate(jsontext.items(raw, top["cells"].start), 1):
        fields = dict(jsontext.members(raw, value.start))
        if _holds_code(fields):
            source = fields["source"]
            yield Cell(
                number, _joined(source.value, number), source.start, source.end
            )


def _holds_code(fields: Mapping[str, jsontext.Value]) -> bool:
    if (
        "source" not in fields
        or "cell_type" not in fields
        or fields["cell_type"].value != "code"
    ):
        return False
    metadata = fields["metadata"].value if "metadata" in fields else {}
    language = _at(metadata, "vscode", "languageId")
    return language is None or language == "python"


def _is_python(metadata: Any) -> bool:
    """Whether all that a notebook says of its language is Python."""
    languages = (
        _at(metadata, "kernelspec", "language"),
        _at(metadata, "language_info", "name"),
    )
    named = [one.lower() for one in languages if isinstance(one, str)]
    return all(name.startswith(("python", "ipython")) for name in named)


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _joined(source: Any, number: int) -> str:
    if isinstance(source, str):
        return source
    if isinstance(source, list) and all(
        isinstance(line, str) for line in source
    ):
        return "".join(source)
    raise SourceError(
        f"the source of cell {number} is neither text nor a list of lines; {_OPEN_AND_SAVE}"
    )


def _with_text(cell: Cell, marker: Marker) -> tuple[Cell, LoopOutcome | None]:
    """The cell with its text; where it has none but may train, what to say about it."""
    outside = magics.cell_magic(cell.source)
    if outside is not None and outside not in magics.PYTHON_CELLS:
        return _left_out(cell, marker, outside), _unread(cell, outside)
    made = len(marker.made)
    try:
        cell.source.encode()
        indent = _indent(cell.source)
        text = magics.as_python(_dedented(cell.source, indent), marker)
        if re.search(r"\r(?!\n)", text):
            raise SyntaxError("a carriage return ends a line alone")
    except (SyntaxError, ValueError) as error:
        del marker.made[made:]
        left = replace(_left_out(cell, marker), error=_said(error))
        return left, _unparsable(cell, error)
    end = "" if text.endswith("\n") or not text else "\n"
    return replace(
        cell,
        text=text + end,
        stand_ins=tuple(marker.made[made:]),
        indent=indent,
    ), None


def _indent(source: str) -> str:
    """The blanks that stand before the first line and before every other one that holds more than
    its end.
    """
    lines = [line for line in split_lines(source) if line.strip("\r\n")]
    first = lines[0] if lines else ""
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    return (
        indent
        if all(
            line.startswith(indent) and line[len(indent) :].strip("\r\n")
            for line in lines
        )
        else ""
    )


def _dedented(source: str, indent: str) -> str:
    return (
        "".join(line.removeprefix(indent) for line in split_lines(source))
        if indent
        else source
    )


def _indented(source: str, indent: str) -> str:
    lines = split_lines(source) if indent else [source]
    return "".join(
        indent + line if line.strip("\r\n") else line for line in lines
    )


def _left_out(cell: Cell, marker: Marker, magic: str = "") -> Cell:
    return replace(
        cell,
        read=False,
        text="" if magic in _ELSEWHERE else marker.unread(cell.source),
    )


def _unread(cell: Cell, magic: str) -> LoopOutcome | None:
    if magic in _NO_PYTHON or not _may_train(cell.source):
        return None
    message = (
        f"`%%{magic}` takes this cell away from the notebook; migrate the file or the "
        "program that it makes"
    )
    return LoopOutcome(
        1, "<module>", "refused", "notebook", message, cell=cell.number
    )


def _unparsable(cell: Cell, error: Exception) -> LoopOutcome | None:
    if not _may_train(cell.source):
        return None
    message = f"{_what(error)} (read by Python {platform.python_version()})"
    line = getattr(error, "lineno", None) or 1
    return LoopOutcome(
        line, "<module>", "refused", "syntax", message, cell=cell.number
    )


def _said(error: Exception) -> str:
    return f"line {getattr(error, 'lineno', None) or 1}: {_what(error)}"


def _what(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _may_train(source: str) -> bool:
    return re.search(r"\.backward\s*\(", source) is not None


def _same(one: str, other: str) -> bool:
    """Whether two texts hold the same program, comments aside."""
    try:
        return ast.dump(magics.parsed(one)) == ast.dump(magics.parsed(other))
    except (SyntaxError, ValueError):
        return False
