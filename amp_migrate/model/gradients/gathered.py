"""Gradients that are gathered, averaged over processes as one and put back: whatever factor they
carry they carry behind it, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.gradients.effects import last_name
from amp_migrate.model.steps.effects import is_reducer
from amp_migrate.model.syntax.module import FUNCTIONS, Function
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.torch_facts.gradients import (
    GRADIENTS,
    JOINS,
    SAME_VALUES,
    SHAPES,
)

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_LINEAR = (ast.Mult, ast.Div)
_DISPLAYS = (ast.ListComp, ast.GeneratorExp, ast.List, ast.Tuple, ast.Starred)


def is_gathered(program: Program, gradient: ast.Attribute) -> bool:
    """Whether a gradient that is read goes with others into a name of which nothing is asked, and
    from which gradients are set.
    """
    function = program.module.scope_of(gradient).node
    if not isinstance(function, FUNCTIONS):
        return False
    walk = _Walk(program, function)
    return walk.goes(gradient) and walk.is_put_back


class _Walk:
    """Follows values through one function."""

    def __init__(self, program: Program, function: Function) -> None:
        self.parents = program.module.parents
        self.function = function
        self.names: set[str] = set()
        self.is_put_back = False

    def goes(self, value: ast.AST) -> bool:
        """Whether a value goes on as it is, or multiplied."""
        above = self.parents[value]
        while (onward := self._onward(value, above)) is not None:
            value, above = onward, self.parents[onward]
        if isinstance(above, ast.Call):
            return self._given(value, above)
        if isinstance(above, ast.Assign) and len(above.targets) == 1:
            return self._set(above.targets[0])
        if isinstance(above, ast.For) and above.iter is value:
            return self._set(above.target)
        return False

    def _onward(self, value: ast.AST, above: ast.AST) -> ast.AST | None:
        """The expression around that holds the same values, or multiples of them."""
        if isinstance(above, _DISPLAYS):
            return above
        if isinstance(above, ast.Subscript):
            return above if above.value is value else None
        if isinstance(above, ast.BinOp):
            return above if isinstance(above.op, _LINEAR) else None
        if isinstance(above, ast.Attribute):
            if above.attr == "data":
                return above
            call = self.parents[above]
            asked = isinstance(call, ast.Call) and call.func is above
            return call if asked and above.attr in SAME_VALUES | JOINS else None
        joins = isinstance(above, ast.Call) and last_name(above.func) in JOINS
        return above if joins else None

    def _given(self, value: ast.AST, call: ast.Call) -> bool:
        func = call.func
        if is_reducer(call) or last_name(func) == "len":
            return True
        if last_name(func) in ("zip", "enumerate"):
            return self._paired(value, call)
        if not isinstance(func, ast.Attribute) or func.attr != "append":
            return False
        return self._set(func.value)

    def _paired(self, value: ast.AST, call: ast.Call) -> bool:
        """`for param, grad in zip(params, grads)`"""
        loop = self.parents[call]
        if not isinstance(loop, ast.For) or loop.iter is not call:
            return False
        place = call.args.index(value)  # type: ignore[arg-type]
        place += last_name(call.func) == "enumerate"
        target = loop.target
        if not isinstance(target, ast.Tuple) or place >= len(target.elts):
            return False
        return self._set(target.elts[place])

    def _set(self, target: ast.expr) -> bool:
        inner = target
        while isinstance(inner, ast.Attribute) and inner.attr == "data":
            inner = inner.value
        if isinstance(inner, ast.Attribute):
            self.is_put_back |= inner.attr in GRADIENTS
            return inner.attr in GRADIENTS
        if not isinstance(target, ast.Name):
            return False
        if target.id in self.names:
            return True
        self.names.add(target.id)
        return all(map(self._is_used_well, self._uses(target.id)))

    def _uses(self, name: str) -> Iterator[ast.Name]:
        for node in nodes_in(self.function):
            if isinstance(node, ast.Name) and node.id == name:
                if isinstance(node.ctx, ast.Load):
                    yield node

    def _is_used_well(self, use: ast.Name) -> bool:
        above = self.parents[use]
        asked = above.attr if isinstance(above, ast.Attribute) else ""
        return asked == "append" or asked in SHAPES or self.goes(use)
