"""From the spans of `ast` to the nodes of LibCST."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper
from libcst.metadata.span_provider import SpanProvidingCodegenState

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.writer.errors import SpanNotFound, UnparsableModule
from amp_migrate.rewrite.writer.precedence import BRACKETED

_DECORATED = frozenset({cst.FunctionDef, cst.ClassDef})
_PRUNED = (
    cst.BaseStatement,
    cst.BaseSmallStatement,
    cst.BaseExpression,
    cst.BaseSuite,
)
_LEAVES = (
    cst.BaseParenthesizableWhitespace,
    cst.TrailingWhitespace,
    cst.EmptyLine,
    cst.BaseBinaryOp,
    cst.BaseBooleanOp,
    cst.BaseCompOp,
    cst.BaseUnaryOp,
    cst.BaseAugOp,
    cst.AssignEqual,
    cst.Comma,
    cst.Dot,
    cst.LeftParen,
    cst.LeftSquareBracket,
    cst.RightParen,
    cst.RightSquareBracket,
)
"""What holds nothing but whitespace."""
_Node = TypeVar("_Node", bound=cst.CSTNode)


class _Spans(ByteSpanPositionProvider):
    """Where each node is, and the text that LibCST makes of a module, both in one walk:
    `MetadataWrapper.resolve` would walk it once more, for visitors that there are none of.
    """

    def of(self, module: cst.Module) -> tuple[Mapping[Any, CodeSpan], str]:
        self.code = ""
        spans: Mapping[Any, Any] = self._gen(
            MetadataWrapper(module, unsafe_skip_copy=True)
        )
        return spans, self.code

    def _gen_impl(self, module: cst.Module) -> None:
        state = _State(module.default_indent, module.default_newline, self)
        state.spans = self._computed
        module._codegen(state)  # noqa: SLF001 - as the provider does that this one is
        self.code = "".join(state.tokens)


class _State(SpanProvidingCodegenState):
    """The same as its base, for half of the time: most of a module is ASCII, and a generator for
    each node is what took longest.
    """

    spans: MutableMapping[Any, Any]

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.position += len(value) if value.isascii() else len(value.encode())

    def record_syntactic_position(  # type: ignore[override]
        self, node: Any, *, start_node: Any = None, end_node: Any = None
    ) -> _Recorded:
        return _Recorded(self, node, start_node, end_node)


class _Recorded:
    """The span of what is printed while it is entered, from one child to another where these are
    named.
    """

    def __init__(self, state: _State, node: Any, first: Any, last: Any) -> None:
        self.state, self.node, self.first, self.last = state, node, first, last

    def __enter__(self) -> None:
        self.start = self.state.position

    def __exit__(self, *_: object) -> None:
        spans = self.state.spans
        start = self.start if self.first is None else spans[self.first].start
        end = self.state.position
        if self.last is not None:
            end = spans[self.last].start + spans[self.last].length
        spans[self.node] = CodeSpan(start, end - start)


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
        return (
            self.indents.most_common(1)[0][0]
            if self.indents
            else self.module.default_indent
        )

    def holds_wanted(self, node: cst.CSTNode) -> bool:
        """True where a wanted node may lie within `node`."""
        kind = type(node)
        is_leaf = _is_leaf(kind)
        if is_leaf or not _is_pruned(kind):
            # Positions of other nodes may leave out children: that of a parameter its default.
            return not is_leaf
        position = self.positions[node]
        index = bisect_left(self.starts, position.start)
        if index == len(self.starts):
            return False
        return (
            self.starts[index] < position.start + position.length
            or self.starts[index] == position.start
        )


# Asked of each node that is visited, and `isinstance` takes long where a class is abstract.
@functools.cache
def _is_leaf(kind: type[cst.CSTNode]) -> bool:
    return issubclass(kind, _LEAVES)


@functools.cache
def _is_pruned(kind: type[cst.CSTNode]) -> bool:
    return issubclass(kind, _PRUNED)


def parse(text: str) -> cst.Module:
    """The module of `text`; raises UnparsableModule where LibCST cannot read it."""
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise UnparsableModule(
            f"LibCST cannot read this: {error.message}"
        ) from error
    except RecursionError as error:
        raise UnparsableModule("nested too deeply for LibCST") from error


def locate(module: cst.Module, wanted: Iterable[Span], text: str) -> Located:
    """Find the statements and expressions at the wanted spans (byte offsets of `ast`) of a module
    freshly parsed from `text`.

    Raises UnparsableModule where LibCST would print it differently (a file with CR line ends only).
    """
    try:
        positions, code = _Spans().of(module)
    except RecursionError as error:
        raise UnparsableModule("nested too deeply for LibCST") from error
    if code != text:
        raise UnparsableModule(
            "LibCST would change the text outside the edits (carriage returns as line ends?)"
        )
    source = text.encode()
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
            decorated.append(
                (positions[node.decorators[0]].start, position.start)
            )
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
        if position.start + position.length < span.end and not rest.strip(
            b" \t\x0c;"
        ):
            located.statements[span] = node


def _take_bracketed(
    located: Located, node: Any, spans: set[Span], source: bytes
) -> None:
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
        start
        for first, start in decorated
        if any(first <= wanted < start for wanted in starts)
    }
    located.starts = sorted(starts)


def _found(node: _Node | None, span: Span, kind: str) -> _Node:
    if node is None:
        raise SpanNotFound(f"no {kind} at bytes {span.start} to {span.end}")
    return node
