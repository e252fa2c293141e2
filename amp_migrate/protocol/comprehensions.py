"""Comprehensions that run parts of a step: `[scaler.step(one) for one in optimizers]` is a loop."""

from __future__ import annotations

import ast


class Comprehensions:
    """The loops that statements with comprehensions stand for."""

    def __init__(self) -> None:
        self._loops: dict[ast.stmt, ast.For | None] = {}

    def loop(self, statement: ast.stmt) -> ast.For | None:
        """The loop of a statement that holds one comprehension over one collection, and nothing
        else; the same one each time.
        """
        if statement not in self._loops:
            self._loops[statement] = _loop(statement)
        return self._loops[statement]


def _loop(statement: ast.stmt) -> ast.For | None:
    match statement:
        case ast.Expr(value=ast.ListComp() | ast.SetComp() as found):
            made = found
        case ast.Assign(value=ast.ListComp() | ast.SetComp() as found):
            made = found
        case _:
            return None
    first, *others = made.generators
    if others or first.ifs or first.is_async:
        return None
    body = ast.copy_location(ast.Expr(made.elt), statement)
    loop = ast.For(first.target, first.iter, [body], [])
    return ast.copy_location(loop, statement)
