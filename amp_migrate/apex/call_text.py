"""The text of a call or a display without some of its members, as a template."""

from __future__ import annotations

import ast

from amp_migrate.model.span import Span
from amp_migrate.model.syntax import Module
from amp_migrate.rewrite.edits import Template


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
        members: list[tuple[tuple[int, int], list[ast.expr]]] = []
        out: set[int] = set()
        for argument in call.args:
            members.append(
                (
                    (
                        self.module.span(argument).start,
                        self.module.span(argument).end,
                    ),
                    [argument],
                )
            )
        for keyword in call.keywords:
            if keyword.arg in dropped:
                out.add(len(members))
            end = self.module.span(keyword.value).end
            start = end - len(
                (
                    ast.get_source_segment(self.module.text, keyword) or ""
                ).encode()
            )
            members.append(((start, end), [keyword.value]))
        name = func or "$0"
        rest = self._cut_text(
            self.module.span(call.func).end,
            call,
            [m[0] for m in members],
            [m[1] for m in members],
            out,
            1 - bool(func),
        )
        text = self._aligned(rest.text, call, func)
        if added:
            head = text.rstrip()[:-1].rstrip()
            text = f"{head}{' ' if head.endswith(',') else ', '}{added})"
        parts = (
            rest.parts if func else (self.module.span(call.func), *rest.parts)
        )
        return Template(f"{name}{text}", parts)

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
        data = self.module.text.encode()
        text, found = b"", list[Span]()
        here, dropped_before = start, False
        for i, (begin, end) in enumerate(spans):
            if i in out:
                if i == len(spans) - 1 or all(
                    j in out for j in range(i, len(spans))
                ):
                    text = (
                        text
                        if dropped_before
                        else text + _opening(data[here:begin], i == 0)
                    )
                    here, dropped_before = end, True
                    continue
                text += data[here:begin] if not dropped_before else b""
                here, dropped_before = end, True
                continue
            text += data[here:begin] if not dropped_before else b""
            inner = begin
            for part in parts[i]:
                span = self.module.span(part)
                text += (
                    data[inner : span.start] + f"${len(found) + first}".encode()
                )
                found.append(span)
                inner = span.end
            here, dropped_before = inner, False
        tail = data[here : self.module.span(node).end]
        if dropped_before:
            tail = (
                tail.lstrip(b" \t,")
                if b"\n" not in tail
                else tail.lstrip(b", \t")
            )
        return Template(
            self._outdented((text + tail).decode(), node), tuple(found)
        )

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
