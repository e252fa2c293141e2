"""Regions in which autocast has no hand: nothing that they run is lowered, and what it would raise
to float32 is float32 anyway, as in the loss of a temperature. They are left out where the loop has
others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.planner.regions.statement_runs import Regions
from amp_migrate.torch_facts.ops import Spelling

_HOPS = 3
_BUILTINS = frozenset(("len", "int", "float", "range", "round", "abs", "print"))
_UNTOLD = (ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom, ast.ClassDef)


def without_idle(asked: Asked, scope: Scope, found: Regions) -> Regions:
    """The regions of a loop that do something, if there are any; one that a loss is moved into
    stays.
    """
    joined = [one.region for one in found.hoists]
    idle = _Idle(asked)
    kept = tuple(
        one
        for one in found.regions
        if one in joined or not idle.holds(one.statements(), scope, _HOPS)
    )
    return replace(found, regions=kept) if kept else found


class _Idle:
    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.program = asked.inference.program

    def holds(
        self, statements: Iterable[ast.stmt], scope: Scope, hops: int
    ) -> bool:
        """Whether autocast changes nothing that the statements compute."""
        return all(
            self._is_idle(node, scope, hops)
            for statement in statements
            for node in nodes_in(statement)
        )

    def _is_idle(self, node: ast.AST, scope: Scope, hops: int) -> bool:
        """Whether autocast changes nothing that one node computes.

        Most nodes compute nothing: names, constants, displays. What stands in
        a lambda or a class runs elsewhere, if at all.
        """
        if isinstance(node, ast.Call):
            return self._is_idle_call(node, scope, hops)
        if isinstance(node, ast.BinOp):
            return self._is_idle_operator(node.op, node.left, scope)
        if isinstance(node, ast.AugAssign):
            return not isinstance(node.op, (ast.MatMult, ast.Pow))
        if isinstance(node, ast.Attribute):
            return not self._is_property(node)
        return not isinstance(node, _UNTOLD)

    def _is_idle_operator(
        self, operator: ast.operator, left: ast.expr, scope: Scope
    ) -> bool:
        if isinstance(operator, ast.MatMult):
            return False
        is_power = isinstance(operator, ast.Pow)
        return not is_power or not self.asked.needs_cast(left, scope)

    def _is_idle_call(self, call: ast.Call, scope: Scope, hops: int) -> bool:
        """The same of a call: of an operator of torch, of a builtin that shows
        a value, or of functions in sight that do no more.

        Of a layer, a model or what is out of sight, nobody knows that: those
        are what autocast is there for.
        """
        found = spelled(self.asked.inference, call, scope)
        if found is not None:
            return self._is_idle_operation(found, call, scope)
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name in _BUILTINS and scope.lookup(name) is None:
            return True
        run = self.program.values.callees(call, scope) if hops else ()
        return bool(run) and all(self._is_idle_body(one, hops) for one in run)

    def _is_idle_operation(
        self, found: Spelling, call: ast.Call, scope: Scope
    ) -> bool:
        """An operator is idle where autocast neither lowers it, nor raises
        or promotes what it is given.
        """
        if found.op.always_breaks or found.policy in ("lower", "banned"):
            return False
        given = operands(found, call) if found.policy != "keeps" else []
        return not any(self.asked.needs_cast(one, scope) for one in given)

    def _is_idle_body(self, function: Function, hops: int) -> bool:
        """The same of all that a function does."""
        inner = self.program.scope(function)
        body = function.body
        return self.holds(body, inner, hops - 1)

    def _is_property(self, attribute: ast.Attribute) -> bool:
        """`self.alpha`, which may run anything."""
        named = self.program.graph.methods_named(attribute.attr)
        marks = (mark for one in named for mark in one.decorator_list)
        return any(isinstance(one, ast.Name) for one in marks)
