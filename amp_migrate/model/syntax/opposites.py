"""Conditions taken apart, and turned round: what holds in the `else` of an `if`."""

from __future__ import annotations

import ast

_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


def negated(test: ast.expr) -> ast.expr:
    """`args.gpu != -1` of `args.gpu == -1`, `use_cuda` of `not use_cuda`, else `not (...)`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    made: ast.expr = ast.UnaryOp(ast.Not(), test)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        turned = _OPPOSITES[type(test.ops[0])]()
        made = ast.Compare(test.left, [turned], test.comparators)
    return ast.copy_location(made, test)


def conjuncts(test: ast.expr) -> list[ast.expr]:
    """What all has to hold for a condition, the last first: innermost, as of nested `if`s."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return list(reversed(test.values))
    return [test]


def holds_otherwise(test: ast.expr, other: ast.expr) -> bool:
    """Whether `test` holds wherever `other` does not: `late or not frozen` beside `frozen`."""
    is_or = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
    parts = test.values if is_or else [test]  # type: ignore[attr-defined]
    wanted = ast.dump(other)
    return any(ast.dump(negated(one)) == wanted for one in parts)
