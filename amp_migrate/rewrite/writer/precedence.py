"""Which expression needs parentheses where."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

import libcst as cst

# Loosest first, as in the table of operator precedence in the language reference (6.17).
NAMED, OPEN, PLAIN, IFEXP, OR, AND, NOT, COMPARE = range(8)
BITOR, XOR, BITAND, SHIFT, ARITH, TERM, UNARY, POWER, AWAIT, ATOM = range(8, 18)

_LEVELS: Final[dict[type[cst.CSTNode], int]] = {
    cst.NamedExpr: NAMED,
    cst.GeneratorExp: NAMED,
    cst.Tuple: OPEN,
    cst.Yield: OPEN,
    cst.Lambda: PLAIN,
    cst.IfExp: IFEXP,
    cst.Comparison: COMPARE,
    cst.Await: AWAIT,
}
_OPERATORS: Final[dict[type[cst.CSTNode], int]] = {
    cst.Or: OR,
    cst.And: AND,
    cst.BitOr: BITOR,
    cst.BitXor: XOR,
    cst.BitAnd: BITAND,
    cst.LeftShift: SHIFT,
    cst.RightShift: SHIFT,
    cst.Add: ARITH,
    cst.Subtract: ARITH,
    cst.Not: NOT,
    cst.Minus: UNARY,
    cst.Plus: UNARY,
    cst.BitInvert: UNARY,
    cst.Power: POWER,
}
BRACKETED: Final = frozenset({cst.Tuple, cst.GeneratorExp})
"""`ast` counts their parentheses as part of them."""
_STATEMENTS = (cst.Expr, cst.Assign, cst.AugAssign, cst.AnnAssign, cst.Return)
_PLAIN_PLACES = (
    cst.Arg,
    cst.Index,
    cst.Slice,
    cst.Element,
    cst.DictElement,
    cst.AssignTarget,
    cst.If,
    cst.While,
    cst.For,
    cst.WithItem,
    cst.Assert,
    cst.Raise,
    cst.Annotation,
    cst.Param,
    cst.Lambda,
    cst.NamedExpr,
    cst.ListComp,
    cst.SetComp,
    cst.DictComp,
    cst.GeneratorExp,
    cst.Yield,
    cst.Decorator,
)
_BRACKETS = (
    cst.Arg,
    cst.Index,
    cst.Slice,
    cst.Element,
    cst.DictElement,
    cst.CompFor,
    cst.ListComp,
    cst.SetComp,
    cst.DictComp,
    cst.FormattedStringExpression,
)


def fit(
    expression: cst.BaseExpression,
    place: cst.BaseExpression,
    ancestors: Sequence[cst.CSTNode],
) -> Any:
    """`expression` with the parentheses that it needs in the place of `place`, a child of the last
    of `ancestors`.
    """
    if expression.lpar and (
        type(expression) in BRACKETED or not has_plain_parentheses(expression)
    ):
        return expression
    bare = expression.with_changes(lpar=(), rpar=())
    if stands_bare(bare, place, ancestors):
        return bare
    return expression if expression.lpar else parenthesised(bare)


def stands_bare(
    bare: cst.BaseExpression,
    place: cst.BaseExpression,
    ancestors: Sequence[cst.CSTNode],
) -> bool:
    """True where `bare` means the same without parentheses in the place of `place`."""
    parent = ancestors[-1] if ancestors else None
    if type(bare) is cst.GeneratorExp and _is_only_argument(ancestors):
        return True
    return level(bare, parent) >= required(
        parent, place
    ) and _stays_one_statement(bare, ancestors)


def is_tight(parent: cst.CSTNode | None, place: cst.BaseExpression) -> bool:
    """True for `(a + b).c`, `(a + b)()` and `(a + b)[c]`: parentheses are there by need, not by
    taste.
    """
    match parent:
        case (
            cst.Attribute(value=inner)
            | cst.Call(func=inner)
            | cst.Subscript(value=inner)
        ):
            return (
                inner is place
                and len(place.lpar) == 1
                and has_plain_parentheses(place)
            )
    return False


def parenthesised(expression: cst.BaseExpression) -> Any:
    """`expression` in one more pair of parentheses."""
    return expression.with_changes(
        lpar=[cst.LeftParen(), *expression.lpar],
        rpar=[*expression.rpar, cst.RightParen()],
    )


def level(node: cst.BaseExpression, parent: cst.CSTNode | None = None) -> int:
    """How tightly `node` holds together."""
    if node.lpar:
        return ATOM
    if isinstance(
        node, cst.BinaryOperation | cst.BooleanOperation | cst.UnaryOperation
    ):
        return _OPERATORS.get(type(node.operator), TERM)
    if isinstance(node, cst.Integer) and isinstance(parent, cst.Attribute):
        return PLAIN
    return _LEVELS.get(type(node), ATOM)


def required(parent: cst.CSTNode | None, place: cst.BaseExpression) -> int:
    """The least level that stands without parentheses in the place of `place` below `parent`."""
    match parent:
        case cst.BinaryOperation() | cst.BooleanOperation():
            return _operand(parent, parent.left is place)
        case cst.UnaryOperation():
            return _OPERATORS[type(parent.operator)]
        case cst.Comparison() | cst.ComparisonTarget():
            return COMPARE + 1
        case cst.IfExp():
            return IFEXP if parent.orelse is place else OR
        case cst.CompFor() | cst.CompIf():
            return OR
        case cst.FormattedStringExpression():
            return IFEXP
        case cst.Arg(star=star) if star:
            return OR
        case None:
            return OPEN
    if isinstance(parent, _STATEMENTS):
        return OPEN
    return PLAIN if isinstance(parent, _PLAIN_PLACES) else ATOM


def _operand(
    parent: cst.BinaryOperation | cst.BooleanOperation, is_left: bool
) -> int:
    if isinstance(parent.operator, cst.Power):
        return AWAIT if is_left else UNARY
    own = _OPERATORS.get(type(parent.operator), TERM)
    return own if is_left else own + 1


def code_of(node: cst.CSTNode) -> str:
    """The source text of a node without a module."""
    return cst.Module(body=()).code_for_node(node)


def has_plain_parentheses(node: cst.BaseExpression) -> bool:
    inner = (
        *(paren.whitespace_after for paren in node.lpar),
        *(paren.whitespace_before for paren in node.rpar),
    )
    return all(
        isinstance(whitespace, cst.SimpleWhitespace) for whitespace in inner
    )


def _is_only_argument(ancestors: Sequence[cst.CSTNode]) -> bool:
    match ancestors:
        case [*_, cst.Call(args=[_]), cst.Arg(keyword=None)]:
            return True
    return False


def _stays_one_statement(
    node: cst.BaseExpression, ancestors: Sequence[cst.CSTNode]
) -> bool:
    """A line break needs brackets around it."""
    if any(
        isinstance(above, _BRACKETS) or getattr(above, "lpar", None)
        for above in ancestors
    ):
        return True
    code = code_of(node)
    if "\n" not in code:
        return True
    try:
        return len(ast.parse(code).body) == 1
    except SyntaxError:
        return False
