"""Half values that are moved to the CPU within a region: the autocast of an accelerator leaves what
lies there alone, so they meet float32 weights as they are.
"""

from __future__ import annotations

import ast

from amp_migrate.model.devices.expressions import Devices
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.uses import viewed
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.tensors.parameters import all_arguments
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.planner.half_safety.exposed_values import Consumers
from amp_migrate.rewrite.proof.receivers import receivers_of
from amp_migrate.torch_facts.methods import VIEWS

_DEEP = 12


def operands_on_cpu(
    asked: Asked, call: ast.Call, scope: Scope
) -> list[ast.expr]:
    """What a layer, a model or an operator gets in half precision on the CPU."""
    if not asked.inference.inside(call):
        return []
    found = _OnCpu(asked.inference.program)
    return [
        one
        for one in _given(asked, call, scope)
        if found.holds(one, scope, _DEEP) and asked.fact(one, scope).seen_half
    ]


def moved_in_half(asked: Asked, call: ast.Call, scope: Scope) -> list[ast.expr]:
    """`out.cpu()`, `out.to("cpu")` in half precision, where more than a look is taken at it."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not asked.inference.inside(call):
        return []
    if func.attr not in ("cpu", "to"):
        return []
    if not asked.fact(call, scope).floats_alone:
        return []
    program = asked.inference.program
    whole = viewed(program.module, call, VIEWS)
    if not _OnCpu(program).holds(call, scope, _DEEP):
        return []
    if not receivers_of(program).made(whole, scope, _DEEP):
        return []
    consumers = Consumers(asked, on_cpu=True)
    return [whole] if consumers.expose(call, scope) else []


def _given(asked: Asked, call: ast.Call, scope: Scope) -> list[ast.expr]:
    """The operands that autocast would bring together."""
    if asked.inference.program.values.is_model(call.func, scope):
        return [*call.args, *(one.value for one in call.keywords)]
    found = spelled(asked.inference, call, scope)
    if found is None or found.policy == "keeps":
        return []
    return operands(found, call)


class _OnCpu:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.devices = Devices(program)

    def holds(self, expr: ast.expr, scope: Scope, deep: int) -> bool:
        """Whether a value was moved to the CPU where it was made."""
        if deep == 0:
            return False
        if isinstance(expr, ast.Call):
            return self._moved(expr, scope, deep)
        if isinstance(expr, ast.Subscript):
            return self.holds(expr.value, scope, deep - 1)
        if isinstance(expr, ast.BinOp):
            sides = (expr.left, expr.right)
            return any(self.holds(one, scope, deep - 1) for one in sides)
        dotted = dotted_name(expr)
        reach = (
            self.program.reaching.at(expr, dotted)
            if dotted is not None
            else None
        )
        if reach is None or not reach.bindings:
            return False
        return all(self._bound(one, deep - 1) for one in reach.bindings)

    def _bound(self, binding: Binding, deep: int) -> bool:
        """Whether a name gets what lies on the CPU: a parameter, from each of its callers."""
        if binding.how == "parameter":
            given = all_arguments(self.program, binding)
            return bool(given) and all(
                self.holds(one, home, deep) for one, home in given
            )
        value = binding.value
        if (
            binding.how != "assign"
            or binding.index is not None
            or value not in self.program.module.parents
            or value is None
        ):
            return False
        return self.holds(value, self.program.module.scope_of(value), deep)

    def _moved(self, call: ast.Call, scope: Scope, deep: int) -> bool:
        """`x.cpu()`, `x.to("cpu")`, and views of that."""
        func = call.func
        if not isinstance(func, ast.Attribute):
            return False
        if func.attr == "cpu":
            return not call.args
        if func.attr == "to" and call.args:
            return self.devices.of(call.args[0], scope).is_cpu
        return func.attr in VIEWS and self.holds(func.value, scope, deep - 1)
