"""Losses that begin a graph of their own: `Variable(loss, requires_grad=True)` holds the number and
none of what it was computed from, so that its backward gives no parameter a gradient.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.gradients.flow import functions_run, without_gradient
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import (
    LOOPS,
    Binding,
    Function,
    Scope,
    returned,
)
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts.gradients import BEGINS_GRAPH

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 10


def begins_graph(
    program: Program, backward: ast.Call, scope: Scope
) -> ast.Call | None:
    """What makes a leaf of the loss of a `backward` call, on every way to it."""
    func = backward.func
    if not isinstance(func, ast.Attribute):
        return None
    found = _Search(program).begun(func.value, scope, _DEEP)
    if found is None or not _is_of_turn(program, found, backward):
        return None
    return found


def _is_of_turn(
    program: Program,
    leaf: ast.Call,
    backward: ast.Call,
) -> bool:
    """Whether a leaf is made anew for each backward, so that no optimizer holds it."""
    home = program.module.scope_of(leaf)
    for call in home.calls:
        if program.values.kind(call, home) is Kind.OPTIMIZER:
            return False
    if home is not program.module.scope_of(backward):
        return True
    around = set(program.module.ancestors(leaf))
    for parent in program.module.ancestors(backward):
        if isinstance(parent, LOOPS):
            return parent in around
    return True


class _Search:
    """One question."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.seen: set[ast.AST] = set()

    def begun(
        self,
        expr: ast.expr,
        scope: Scope,
        deep: int,
    ) -> ast.Call | None:
        """The call that makes the leaf from which alone a value comes."""
        if not deep or expr in self.seen:
            return None
        self.seen.add(expr)
        if isinstance(expr, ast.Call):
            return self._call(expr, scope, deep - 1)
        if isinstance(expr, ast.BinOp):
            return self._sum(expr, scope, deep - 1)
        if isinstance(expr, ast.UnaryOp):
            return self.begun(expr.operand, scope, deep - 1)
        name = dotted_name(expr)
        if name is None:
            return None
        bindings = self.program.reaching.at(expr, name).bindings
        return self._of_all([self._bound(one, deep - 1) for one in bindings])

    def _of_all(
        self,
        found: list[ast.Call | None],
    ) -> ast.Call | None:
        if not found or None in found:
            return None
        return found[0]

    def _bound(
        self,
        binding: Binding,
        deep: int,
    ) -> ast.Call | None:
        value = binding.value
        if value is None or value not in self.program.module.parents:
            return None
        if binding.how != "assign" or binding.index is not None:
            return None
        return self.begun(value, self.program.module.scope_of(value), deep)

    def _sum(self, expr: ast.BinOp, scope: Scope, deep: int) -> ast.Call | None:
        """Of two sides, one begins a graph, and the other has none."""
        found = None
        for side in (expr.left, expr.right):
            begun = self.begun(side, scope, deep)
            if begun is not None:
                found = begun
            elif not without_gradient(self.program, side, scope):
                return None
        return found

    def _call(
        self,
        call: ast.Call,
        scope: Scope,
        deep: int,
    ) -> ast.Call | None:
        if self._wraps(call, scope):
            return call
        functions = functions_run(self.program, call, scope)
        if functions:
            return self._run(functions, deep)
        func = call.func
        if call.args or not isinstance(func, ast.Attribute):
            return None
        if self.program.values.of(func.value, scope):
            return None
        return self.begun(func.value, scope, deep)

    def _run(
        self, functions: list[tuple[Program, Function]], deep: int
    ) -> ast.Call | None:
        found = []
        for home, function in functions:
            if home is not self.program:
                return None
            inner = home.scope(function)
            for one in returned(function):
                found.append(self.begun(one, inner, deep))
        return self._of_all(found)

    def _wraps(self, call: ast.Call, scope: Scope) -> bool:
        """`Variable(loss, requires_grad=True)` of what was computed with gradients."""
        if self.program.canonical(call.func) not in BEGINS_GRAPH:
            return False
        if len(call.args) != 1 or not self._asks(call):
            return False
        return not without_gradient(self.program, call.args[0], scope)

    def _asks(self, call: ast.Call) -> bool:
        for keyword in call.keywords:
            if keyword.arg == "requires_grad":
                value = keyword.value
                return isinstance(value, ast.Constant) and value.value is True
        return False
