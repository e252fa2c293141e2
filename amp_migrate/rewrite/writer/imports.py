"""Where a new import goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst

from amp_migrate.rewrite.edits import AddImport
from amp_migrate.rewrite.writer.blocks import divided
from amp_migrate.rewrite.writer.templates import newline_of


def add_import(module: cst.Module, edit: AddImport) -> cst.Module:
    """`module` with the import, unless the name is bound by one that always runs at its
    top level.
    """
    if any(_binds(small, edit) for small in _top_level(module.body)):
        return module
    body = list(module.body)
    lines = [i for i, line in enumerate(body) if _imports(line)]
    same = [
        i
        for i in lines
        if any(
            _package(small) == _root(edit.module) for small in _smalls(body[i])
        )
    ]
    if same and edit.name is None:
        return module.with_changes(body=_before(body, same[0], edit))
    own = next(
        (
            i
            for i in lines
            if any(_is_relative(small) for small in _smalls(body[i]))
        ),
        None,
    )
    if own is not None and edit.name is None:
        return module.with_changes(
            body=_above_own(body, own, own == lines[0], edit)
        )
    if lines:
        after = same[-1] if same else _end_of_block(lines)
        return module.with_changes(body=_after(body, after, edit))
    return _at_top(module, edit)


def _statement(edit: AddImport, newline: str | None) -> Any:
    text = (
        f"import {edit.module}"
        if edit.name is None
        else f"from {edit.module} import {edit.name}"
    )
    line: Any = cst.parse_statement(text)
    return line.with_changes(
        trailing_whitespace=cst.TrailingWhitespace(newline=cst.Newline(newline))
    )


def _before(body: list[Any], index: int, edit: AddImport) -> list[Any]:
    anchor = body[index]
    new = _statement(edit, newline_of(anchor)).with_changes(
        leading_lines=anchor.leading_lines
    )
    return [
        *body[:index],
        new,
        anchor.with_changes(leading_lines=()),
        *body[index + 1 :],
    ]


def _above_own(
    body: list[Any], index: int, first: bool, edit: AddImport
) -> list[Any]:
    """Before the project's own modules, with a blank line where they stand apart."""
    anchor = body[index]
    apart = first or any(line.comment is None for line in anchor.leading_lines)
    blank = (
        [cst.EmptyLine(indent=False, newline=cst.Newline(newline_of(anchor)))]
        if apart
        else []
    )
    above, comments = divided(anchor.leading_lines)
    new = _statement(edit, newline_of(anchor)).with_changes(leading_lines=above)
    return [
        *body[:index],
        new,
        anchor.with_changes(leading_lines=[*blank, *comments]),
        *body[index + 1 :],
    ]


def _after(body: list[Any], index: int, edit: AddImport) -> list[Any]:
    return [
        *body[: index + 1],
        _statement(edit, newline_of(body[index])),
        *body[index + 1 :],
    ]


def _at_top(module: cst.Module, edit: AddImport) -> cst.Module:
    """After the docstring and `from __future__` imports, blank lines around it."""
    body: list[Any] = list(module.body)
    index = next(
        (i for i, line in enumerate(body) if not _is_preamble(line, i)),
        len(body),
    )
    newline = newline_of(body[0]) if body else None
    blank = cst.EmptyLine(indent=False, newline=cst.Newline(newline))
    new = _statement(edit, newline)
    header = list(module.header)
    if index:
        new = new.with_changes(leading_lines=[blank])
    if index < len(body):
        above = list(body[index].leading_lines)
        if not index:
            header, above = divided(header)
        if not above or above[0].comment is not None:
            above = [blank, *above]
        body[index] = body[index].with_changes(leading_lines=above)
    return module.with_changes(
        header=header, body=[*body[:index], new, *body[index:]]
    )


def _is_preamble(line: Any, index: int) -> bool:
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString())]
        ):
            return index == 0
        case cst.SimpleStatementLine():
            return any(_is_future(small) for small in line.body)
    return False


def _smalls(line: Any) -> Sequence[cst.CSTNode]:
    return line.body if isinstance(line, cst.SimpleStatementLine) else ()


def _imports(line: Any) -> bool:
    return any(
        isinstance(small, cst.Import | cst.ImportFrom) and not _is_future(small)
        for small in _smalls(line)
    )


def _is_relative(small: cst.CSTNode) -> bool:
    return isinstance(small, cst.ImportFrom) and bool(small.relative)


def _is_future(small: cst.CSTNode) -> bool:
    return isinstance(small, cst.ImportFrom) and _package(small) == "__future__"


def _end_of_block(lines: list[int]) -> int:
    """The last import of the first run of imports."""
    end = lines[0]
    for line in lines[1:]:
        if line != end + 1:
            break
        end = line
    return end


def _top_level(lines: Sequence[Any]) -> Iterator[cst.CSTNode]:
    """Statements that always run when the module is imported, as far as no exception stops them."""
    for line in lines:
        yield from _smalls(line)
        if isinstance(line, cst.Try | cst.With) and isinstance(
            line.body, cst.IndentedBlock
        ):
            yield from _top_level(line.body.body)


def _binds(small: cst.CSTNode, edit: AddImport) -> bool:
    if isinstance(small, cst.Import) and edit.name is None:
        return any(_alias_binds(alias, edit.module) for alias in small.names)
    if isinstance(small, cst.ImportFrom) and not isinstance(
        small.names, cst.ImportStar
    ):
        names = {
            _dotted(alias.name)
            for alias in small.names
            if _bound_name(alias) == edit.name
        }
        return (
            bool(names)
            and names == {edit.name}
            and _module(small) == edit.module
        )
    return False


def _alias_binds(alias: cst.ImportAlias, module: str) -> bool:
    name = _dotted(alias.name)
    if alias.asname is not None:
        return name == module == _dotted(alias.asname.name)
    return name == module or name.startswith(module + ".")


def _bound_name(alias: cst.ImportAlias) -> str:
    return _dotted(alias.name if alias.asname is None else alias.asname.name)


def _package(small: cst.CSTNode) -> str | None:
    """The top package of an import."""
    if isinstance(small, cst.Import):
        return _root(_dotted(small.names[0].name))
    if isinstance(small, cst.ImportFrom) and not small.relative:
        return _root(_module(small))
    return None


def _module(small: cst.ImportFrom) -> str:
    return "." * len(small.relative) + (
        _dotted(small.module) if small.module is not None else ""
    )


def _root(module: str) -> str:
    return module.partition(".")[0]


def _dotted(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""
