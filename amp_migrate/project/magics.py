"""What IPython reads and Python does not: magics, shell commands, help. Each gets a stand-in that
Python can read.

IPython's own rules are in `IPython.core.inputtransformer2`. A stand-in has as many lines as what it
stands for and keeps the block it is in. It binds what the original binds (`files = !ls`) and runs
what the original runs (`%time fit(model)`).
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from amp_migrate.project.json_spans import split_lines

TIMERS = frozenset("time timeit prun memit lprun mprun snakeviz".split())
"""Magics with a Python statement behind their options."""
PYTHON_CELLS = TIMERS | {"capture"}
"""Cell magics with Python below them, which runs in the notebook."""

_ASSIGNED = re.compile(
    r"(?P<before>\s*[\w.,\s\[\]'\"*]+?\s*=\s*)(?P<magic>(?:%\w|!).*)", re.DOTALL
)
_HELP = re.compile(r"\s*%{0,2}[^\s#'\"()]*[\w\]*]\?{1,2}\s*")
_FUTURE = re.compile(r"from\s+__future__\s+import\b")
_LEXED = re.compile(
    r"#|[bBfFrRuU]{0,2}(?P<quote>\"\"\"|'''|\"|')|(?P<open>[(\[{])|(?P<close>[)\]}])"
)


@dataclass(frozen=True)
class StandIn:
    """What stands in the text for `original`; with a `prefix`, Python follows that and the mark is
    a comment.
    """

    text: str
    original: str
    prefix: str = ""


@dataclass
class Marker:
    """Makes stand-ins that nothing else in the text can be taken for; `functions` are names worth
    a reference.
    """

    digest: str
    functions: Collection[str] = ()
    made: list[StandIn] = field(default_factory=list)

    def mark(self) -> str:
        """A new mark."""
        return f"%% {len(self.made)} {self.digest}"

    def statement(self, original: str) -> str:
        """A string, as a statement; a magic that names functions of the notebook holds references
        to them.
        """
        return self._add(StandIn(self._string(original, "%,;/"), original))

    def value(self, original: str) -> str:
        """An expression of unknown value."""
        return self._add(
            StandIn(f"get_ipython({self._string(original, '%')})", original)
        )

    def unread(self, source: str) -> str:
        """A line for a cell that is left out, where it names functions of the notebook; else
        nothing.
        """
        words = self._words(source)
        return f'("""{self.digest}""", {words})\n' if words else ""

    def prefixed(self, prefix: str, code: str) -> str:
        """Python with something before it."""
        comment = f"  # {self.mark()}"
        self._add(StandIn(comment, prefix, prefix))
        return code + comment

    def _string(self, original: str, calling: str) -> str:
        """A string of as many lines, with references to the functions that a command may call."""
        breaks = "".join(
            line[len(line.rstrip("\r\n")) :] for line in split_lines(original)
        )
        words = self._words(original) if original[0] in calling else ""
        text = f'"""{self.mark()}{breaks}"""'
        return f"({text}, {words})" if words else text

    def _words(self, original: str) -> str:
        return ", ".join(
            sorted(set(re.findall(r"\w+", original)) & set(self.functions))
        )

    def _add(self, made: StandIn) -> str:
        self.made.append(made)
        return made.text


@dataclass
class _Lexer:
    """Tells at which lines a statement can begin; it knows strings, brackets, comments and joined
    lines.
    """

    depth: int = 0
    quote: str = ""
    joined: bool = False

    @property
    def at_statement(self) -> bool:
        return not (self.depth or self.quote or self.joined)

    def feed(self, line: str) -> None:
        at = 0
        code = line.rstrip("\r\n")
        self.joined = code.endswith("\\")
        while at < len(line):
            at = (
                self._in_string(line, at)
                if self.quote
                else self._in_code(line, at)
            )
        if len(self.quote) == 1 and not self.joined:
            self.quote = ""

    def _in_string(self, line: str, at: int) -> int:
        found = re.compile(
            rf"(?:\\.|(?!{self.quote}).)*?{self.quote}", re.DOTALL
        ).match(line, at)
        if not found:
            return len(line)
        self.quote = ""
        return found.end()

    def _in_code(self, line: str, at: int) -> int:
        found = _LEXED.search(line, at)
        if not found:
            return len(line)
        if found[0] == "#":
            self.joined = False
            return len(line)
        if found["quote"]:
            self.quote = found["quote"]
        else:
            self.depth = max(self.depth + (1 if found["open"] else -1), 0)
        return found.end()


def cell_magic(source: str) -> str | None:
    """The name of the magic that takes the whole cell: `bash` for `%%bash -e`."""
    found = re.match(r"\s*%%(\w+)", source)
    return found[1] if found else None


def as_python(source: str, marker: Marker) -> str:
    """A cell as Python. Raises SyntaxError or ValueError where it is none, whatever the magics
    stand for.
    """
    text = source
    if not _parses(source) or _FUTURE.search(source):
        text = _without_magics(source, marker)
        parsed(text)
    return text


def parsed(text: str) -> ast.Module:
    """The tree of `text`, without the warnings that reading it may give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _parses(text: str) -> bool:
    try:
        parsed(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _without_magics(source: str, marker: Marker) -> str:
    lines = split_lines(source)
    lexer = _Lexer()
    out: list[str] = []
    at_top = True
    while lines:
        stand_in = (
            _stand_in(lines, marker, at_top) if lexer.at_statement else None
        )
        line = lines.pop(0)
        if stand_in is None:
            lexer.feed(line)
            at_top = at_top and not line.strip()
        out.append(line if stand_in is None else stand_in)
    return "".join(out)


def _stand_in(lines: list[str], marker: Marker, at_top: bool) -> str | None:
    """What to read instead of the first of `lines`; further lines that belong to it are taken
    away.
    """
    first = lines[0]
    body = first.lstrip(" \t\f")
    indent = first[: len(first) - len(body)]
    if body.startswith("%%"):
        taken = at_top and cell_magic(body) in PYTHON_CELLS
        return _whole(lines, indent, marker.statement) if taken else None
    if body[:1] in ("%", "!", "?", ",", ";", "/"):
        return _timed(first, indent, body, marker) or _whole(
            lines, indent, marker.statement
        )
    if _FUTURE.match(body):
        return (
            _whole(lines, indent, marker.statement) if "(" not in body else None
        )
    assigned = _ASSIGNED.fullmatch(first)
    if assigned:
        return _whole(lines, assigned["before"], marker.value)
    if _HELP.fullmatch(first):
        return _whole(lines, indent, marker.statement)
    return None


def _whole(lines: list[str], before: str, made: Callable[[str], str]) -> str:
    """The command with the lines that backslashes join to it; the last line end stays outside."""
    count = 1
    while lines[count - 1].rstrip("\r\n").endswith("\\") and count < len(lines):
        count += 1
    command = "".join(lines[:count])
    del lines[: count - 1]
    body = command[len(before) :]
    code = body.rstrip("\r\n")
    return before + made(code) + body[len(code) :]


def _timed(line: str, indent: str, body: str, marker: Marker) -> str | None:
    """`%timeit -n 10 fit(model)`: the statement, after as many words as are options."""
    found = re.match(r"%(\w+)[ \t]+", body)
    code = body.rstrip("\r\n")
    if not found or found[1] not in TIMERS or code.endswith("\\"):
        return None
    at = found.end()
    while at < len(code) and (code[at] == "-" or not _parses(code[at:])):
        word = re.compile(r"\S+[ \t]*").match(code, at)
        at = word.end() if word else len(code)
    if at >= len(code) or code[at] == "#":
        return None
    return indent + marker.prefixed(code[:at], code[at:]) + body[len(code) :]


def restored(text: str, stand_ins: Collection[StandIn]) -> str | None:
    """`text` with the originals back in their places; None where one is gone or stands twice."""
    for one in stand_ins:
        if text.count(one.text) != 1:
            return None
        if not one.prefix:
            text = text.replace(one.text, one.original)
            continue
        end = text.index(one.text)
        start = text.rfind("\n", 0, end) + 1
        code = text[start:end]
        body = code.lstrip(" \t")
        text = (
            text[:start]
            + code[: len(code) - len(body)]
            + one.prefix
            + body
            + text[end + len(one.text) :]
        )
    return text
