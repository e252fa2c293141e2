"""The text of a call or a display without some of its members, as a template."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import Module
from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import Template


class _Remainder:
    """The text that is left, grown from member to member."""

    def __init__(self, module: Module, start: int, first: int) -> None:
        self._module = module
        self._data = module.text.encode()
        self._text = b""
        self._here = start
        self._first = first
        self._has_dropped = False
        self.found: list[Span] = []

    def keep(self, begin: int, parts: list[ast.expr]) -> None:
        """A member that stays: its expressions become parts of the template."""
        self._text += self._gap(begin)
        inner = begin
        for part in parts:
            span = self._module.span(part)
            number = len(self.found) + self._first
            self._text += self._data[inner : span.start] + b"$%d" % number
            self.found.append(span)
            inner = span.end
        self._here, self._has_dropped = inner, False

    def drop(self, begin: int, end: int) -> None:
        """A member that goes, and one behind it stays."""
        self._text += self._gap(begin)
        self._here, self._has_dropped = end, True

    def drop_last(self, begin: int, end: int, *, is_first: bool) -> None:
        """A member that goes, and all behind it go as well."""
        gap = self._gap(begin)
        self._text += b"" if self._has_dropped else _opening(gap, is_first)
        self._here, self._has_dropped = end, True

    def closed(self, end: int) -> str:
        """All of it, up to the closing bracket at `end`."""
        tail = self._data[self._here : end]
        if self._has_dropped:
            tail = tail.lstrip(b" \t,")
        return (self._text + tail).decode()

    def _gap(self, begin: int) -> bytes:
        """What stands before a member; the one that went took its own."""
        return b"" if self._has_dropped else self._data[self._here : begin]


class CallText:
    """Writes the calls of one module anew."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def called(
        self,
        call: ast.Call,
        func: str | None,
        dropped: set[str],
        added: str = "",
    ) -> Template:
        """The call under another name, without some keywords."""
        spans, parts = self._members(call)
        out = {
            len(call.args) + place
            for place, keyword in enumerate(call.keywords)
            if keyword.arg in dropped
        }
        start = self.module.span(call.func).end
        rest = self._cut_text(start, call, spans, parts, out, 1 - bool(func))
        text = _with_last(self._aligned(rest.text, call, func), added)
        name = func or "$0"
        own = rest.parts if func else (self.module.span(call.func), *rest.parts)
        return Template(f"{name}{text}", own)

    def _members(
        self, call: ast.Call
    ) -> tuple[list[tuple[int, int]], list[list[ast.expr]]]:
        """Where each argument stands, and the expressions in it."""
        positional = [self.module.span(one) for one in call.args]
        spans = [(span.start, span.end) for span in positional]
        for keyword in call.keywords:
            end = self.module.span(keyword.value).end
            text = ast.get_source_segment(self.module.text, keyword) or ""
            spans.append((end - len(text.encode()), end))
        values = [keyword.value for keyword in call.keywords]
        return spans, [[one] for one in (*call.args, *values)]

    def _aligned(self, text: str, call: ast.Call, func: str | None) -> str:
        """Lines that stood under the first argument stand there again under a longer name."""
        end = call.func.end_col_offset or 0
        by = (
            len(func) - (end - call.func.col_offset)
            if func and call.func.lineno == call.func.end_lineno
            else 0
        )
        opening = f"\n{' ' * (end + 1)}"
        inner = self._outdented(opening, call)
        under = [line for line in text.split("\n")[1:] if line.strip()]
        if by <= 0 or not all(f"\n{line}".startswith(inner) for line in under):
            return text
        return text.replace(inner, inner + " " * by)

    def without(
        self,
        node: ast.expr,
        spans: list[tuple[int, int]],
        parts: list[list[ast.expr]],
        out: set[int],
    ) -> Template:
        return self._cut_text(
            self.module.span(node).start, node, spans, parts, out, 0
        )

    def _cut_text(
        self,
        start: int,
        node: ast.expr,
        spans: list[tuple[int, int]],
        parts: list[list[ast.expr]],
        out: set[int],
        first: int,
    ) -> Template:
        """The text of `node` from `start` without the members in `out`, the expressions of the
        others as parts.
        """
        left = _Remainder(self.module, start, first)
        for place, (begin, end) in enumerate(spans):
            if place not in out:
                left.keep(begin, parts[place])
            elif all(later in out for later in range(place, len(spans))):
                left.drop_last(begin, end, is_first=place == 0)
            else:
                left.drop(begin, end)
        text = left.closed(self.module.span(node).end)
        return Template(self._outdented(text, node), tuple(left.found))

    def _outdented(self, text: str, node: ast.expr) -> str:
        """Without the indentation of the block, which the writer puts before every line."""
        line = self.module.line(self.module.statement_of(node).lineno)
        indent = line[: len(line) - len(line.lstrip())]
        return text.replace(f"\n{indent}", "\n") if indent else text


def _opening(gap: bytes, is_first: bool) -> bytes:
    """What stands before a last member that goes: the bracket stays, a comma between members does
    not.
    """
    if is_first:
        return gap.rstrip()
    trailing_comma = gap.lstrip()[:1] == b"," and b"\n" in gap
    return b"," if trailing_comma else b""


def _with_last(text: str, added: str) -> str:
    """A list of arguments, with one more."""
    if not added:
        return text
    head = text.rstrip()[:-1].rstrip()
    return f"{head}{' ' if head.endswith(',') else ', '}{added})"
