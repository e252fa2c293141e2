"""Models that may be missing: `ref_model`, which is None in the first phase, and is run under a
condition that the training is not under.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope

_CONDITIONS = (ast.If, ast.IfExp, ast.BoolOp)


def may_be_missing(program: Program, model: ast.expr, scope: Scope) -> bool:
    """Whether a name that is None on some path, or that callers give, is no model for certain
    where `scope` trains: nothing that always runs there asks it for anything.
    """
    name = dotted_name(model)
    bindings = _bindings(program, name or "", scope)
    if name is None or not any(_may_be_none(one) for one in bindings):
        return False
    uses = [call for call in scope.calls if _is_of(call, name)]
    trains = [
        call
        for call in scope.calls
        if program.events.what(call, scope) is EventKind.BACKWARD
    ]
    around = {one for call in trains for one in _conditions(program, call)}
    return bool(uses) and not any(
        _conditions(program, call) <= around for call in uses
    )


def _bindings(program: Program, name: str, scope: Scope) -> list[Binding]:
    head, _, rest = name.partition(".")
    cls = program.graph.class_around(scope)
    if rest and cls is not None and head == scope.self_name:
        return program.module.scopes[cls].bindings.get(f"self.{rest}", [])
    home = scope.lookup(head)
    return home.bindings.get(name, []) if home is not None else []


def _may_be_none(binding: Binding) -> bool:
    if binding.how == "parameter":
        return True
    value = binding.value
    return isinstance(value, ast.Constant) and value.value is None


def _is_of(call: ast.Call, name: str) -> bool:
    """`ref_model(x)`, `ref_model.eval()`"""
    called = dotted_name(call.func) or ""
    return called == name or called.startswith(f"{name}.")


def _conditions(program: Program, call: ast.Call) -> set[ast.AST]:
    found: set[ast.AST] = set()
    for parent in program.module.ancestors(call):
        if isinstance(parent, FUNCTIONS):
            break
        if isinstance(parent, _CONDITIONS):
            found.add(parent)
    return found
