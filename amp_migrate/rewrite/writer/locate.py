"""From the spans of `ast` to the nodes of LibCST."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from amp_migrate.model.span import Span
from amp_migrate.rewrite.writer.errors import SpanNotFound, UnparsableModule
from amp_migrate.rewrite.writer.precedence import BRACKETED

_DECORATED = frozenset({cst.FunctionDef, cst.ClassDef})
_PRUNED = (cst.BaseStatement, cst.BaseSmallStatement, cst.BaseExpression, cst.BaseSuite)
_WHITESPACE = (cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine)
_Node = TypeVar("_Node", bound=cst.CSTNode)


class _Spans(ByteSpanPositionProvider):
    """`MetadataWrapper.resolve` would walk the module once more, for visitors that there are none
    of.
    """

    def of(self, module: cst.Module) -> Mapping[Any, CodeSpan]:
        spans: Mapping[Any, Any] = self._gen(MetadataWrapper(module, unsafe_skip_copy=True))
        return spans


@dataclass
class Located:
    """A module and those of its nodes that somebody asked for."""

    module: cst.Module
    source: bytes
    positions: Mapping[Any, CodeSpan]
    statements: dict[Span, cst.CSTNode] = field(default_factory=dict)
    expressions: dict[Span, cst.BaseExpression] = field(default_factory=dict)
    indents: Counter[str] = field(default_factory=Counter)
    starts: list[int] = field(default_factory=list)

    def statement(self, span: Span) -> cst.CSTNode:
        """The statement at `span`; raises SpanNotFound."""
        return _found(self.statements.get(span), span, "statement")

    def expression(self, span: Span) -> cst.BaseExpression:
        """The expression at `span`; raises SpanNotFound."""
        return _found(self.expressions.get(span), span, "expression")

    @property
    def prevailing_indent(self) -> str:
        """The indentation unit that most blocks of the module use."""
        return self.indents.most_common(1)[0][0] if self.indents else self.module.default_indent

    def holds_wanted(self, node: cst.CSTNode) -> bool:
        """True where a wanted node may lie within `node`."""
        if isinstance(node, _WHITESPACE):
            return False
        if not isinstance(node, _PRUNED):
            # Positions of other nodes may leave out children: that of a parameter its default.
            return True
        position = self.positions[node]
        index = bisect_left(self.starts, position.start)
        if index == len(self.starts):
            return False
        return (
            self.starts[index] < position.start + position.length
            or self.starts[index] == position.start
        )


def parse(text: str) -> cst.Module:
    """The module of `text`.

    Raises:
        UnparsableModule: LibCST cannot read it, or would print it differently (a file with CR line
            ends only).
    """
    try:
        module = cst.parse_module(text)
        same = module.code == text
    except cst.ParserSyntaxError as error:
        raise UnparsableModule(f"LibCST cannot read this: {error.message}") from error
    except RecursionError as error:
        raise UnparsableModule("nested too deeply for LibCST") from error
    if not same:
        raise UnparsableModule(
            "LibCST would change the text outside the edits (carriage returns as line ends?)"
        )
    return module


def locate(module: cst.Module, wanted: Iterable[Span], source: bytes) -> Located:
    """Find the statements and expressions at the wanted spans (byte offsets of `ast`) of a module
    freshly parsed.
    """
    try:
        positions = _Spans().of(module)
    except RecursionError as error:
        raise UnparsableModule("nested too deeply for LibCST") from error
    located = Located(module, source, positions)
    spans = set(wanted)
    starts = {span.start for span in spans}
    decorated: list[tuple[int, int]] = []
    compounds: dict[int, cst.CSTNode] = {}
    node: Any
    for node, position in positions.items():
        kind = type(node)
        if kind in BRACKETED:
            _take_bracketed(located, node, spans, source)
        elif position.start in starts:
            span = Span(position.start, position.start + position.length)
            if span in spans:
                _take(located, node, span)
            elif isinstance(node, cst.BaseCompoundStatement):
                compounds[position.start] = node
        if kind in _DECORATED and node.decorators:
            decorated.append((positions[node.decorators[0]].start, position.start))
    for span in spans.difference(located.statements, located.expressions):
        _take_ended_by_semicolon(located, compounds, span)
    _settle_starts(located, decorated)
    return located


def _take(located: Located, node: cst.CSTNode, span: Span) -> None:
    if isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement):
        located.statements[span] = node
    elif isinstance(node, cst.BaseExpression):
        located.expressions[span] = node


def _take_ended_by_semicolon(
    located: Located, compounds: Mapping[int, cst.CSTNode], span: Span
) -> None:
    """`ast` counts the last semicolon of `if a: b;` as part of the `if`."""
    node = compounds.get(span.start)
    if node is not None:
        position = located.positions[node]
        rest = located.source[position.start + position.length : span.end]
        if position.start + position.length < span.end and not rest.strip(b" \t\x0c;"):
            located.statements[span] = node


def _take_bracketed(located: Located, node: Any, spans: set[Span], source: bytes) -> None:
    """`ast` counts the parentheses of tuples and generators (a call's own ones too) as part of
    them, LibCST never.
    """
    position = located.positions[node]
    start, end = position.start, position.start + position.length
    if node.lpar:
        start = located.positions[node.lpar[-1]].start
        closing = located.positions[node.rpar[0]]
        end = closing.start + closing.length
    elif isinstance(node, cst.GeneratorExp):
        start, end = source.rindex(b"(", 0, start), source.index(b")", end) + 1
    if Span(start, end) in spans:
        located.expressions[Span(start, end)] = node


def _settle_starts(located: Located, decorated: list[tuple[int, int]]) -> None:
    nodes = [*located.statements.values(), *located.expressions.values()]
    starts = {located.positions[node].start for node in nodes}
    # LibCST leaves decorators out of the position of what they decorate.
    starts |= {
        start for first, start in decorated if any(first <= wanted < start for wanted in starts)
    }
    located.starts = sorted(starts)


def _found(node: _Node | None, span: Span, kind: str) -> _Node:
    if node is None:
        raise SpanNotFound(f"no {kind} at bytes {span.start} to {span.end}")
    return node
