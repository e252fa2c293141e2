"""Whether a scaler's state is saved or loaded, and whether an optimizer that somebody hands over is
one that a scaler steps.
"""

from __future__ import annotations

import ast

from amp_migrate.checks._handed_over import handed_over
from amp_migrate.checks._states import (
    calls_on_scaler,
    is_on_scaler,
    is_stepped_by_scaler,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in

_HOPS = 4


def steps_at_callers(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether the optimizer was handed over, as an argument or to the constructor of the object,
    by a caller that steps it with a scaler: to what is not given the scaler. Or another method of
    the object steps it, with a scaler that the object does not keep, or another object of the kind
    that is handed the same owner.
    """
    func = call.func
    if not isinstance(func, ast.Attribute):
        return False
    if isinstance(func.value, ast.Attribute) and calls_on_scaler(
        program, "state_dict"
    ):
        return False  # another object may save it
    name = dotted_name(func.value)
    if name is not None and _is_kept_scaled(program, func.value, scope, name):
        return True
    if name is not None and _is_shared_scaled(program, func.value, scope, name):
        return True
    return _is_given_scaled(program, func.value, scope, func.attr, _HOPS)


def _is_given_scaled(
    program: Program, expr: ast.expr, scope: Scope, method: str, hops: int
) -> bool:
    for site, given in handed_over(program, expr, scope) if hops else ():
        if _hands_scaler(site.call, given) or is_handled(
            program, site.scope, method
        ):
            continue
        name = dotted_name(given)
        if name is not None and _is_scaled(program, given, site.scope, name):
            return True
        if _is_given_scaled(program, given, site.scope, method, hops - 1):
            return True
    return False


def _is_scaled(
    program: Program, given: ast.expr, scope: Scope, name: str
) -> bool:
    """Whether a scaler steps an optimizer where it stands, or in a method of the same object."""
    if is_stepped_by_scaler(program, scope, name):
        return True
    cls = program.graph.class_around(scope)
    if cls is None or not isinstance(given, ast.Attribute):
        return False
    return name.partition(".")[0] == scope.self_name and any(
        is_stepped_by_scaler(program, one, name)
        for one in program.module.scopes.values()
        if program.graph.class_around(one) is cls
    )


def _is_kept_scaled(
    program: Program, optimizer: ast.expr, scope: Scope, name: str
) -> bool:
    """Whether another method of the object steps its optimizer, with a scaler of its own."""
    return isinstance(optimizer, ast.Attribute) and _is_scaled(
        program, optimizer, scope, name
    )


def _is_shared_scaled(
    program: Program, optimizer: ast.expr, scope: Scope, name: str
) -> bool:
    """Whether an object of the kind steps the optimizer of what both are handed with a scaler of
    its own: `runner.optimizer` in the callbacks of a runner.
    """
    owner = optimizer.value if isinstance(optimizer, ast.Attribute) else None
    graph, cls = program.graph, program.graph.class_around(scope)
    if owner is None or cls is None or not _is_parameter(owner, scope):
        return False
    own = _kind(program, cls)
    return any(
        other is not cls
        and own & _kind(program, other)
        and _is_parameter(owner, one)
        and is_stepped_by_scaler(program, one, name)
        for one in program.module.scopes.values()
        if (other := graph.class_around(one)) is not None
    )


def _kind(program: Program, cls: ast.ClassDef) -> set[str]:
    """The names of a class and its bases, those of other files included."""
    found = program.graph.lineage(cls)
    bases = (dotted_name(base) for one in found for base in one.bases)
    return {one.name for one in found} | {name for name in bases if name}


def makes_stepper(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call makes an object that keeps a scaler and steps what its methods are handed."""
    cls = program.graph.class_named(call.func, scope)
    own = [
        one
        for one in program.module.scopes.values()
        if cls is not None and program.graph.class_around(one) is cls
    ]
    makes = any(
        program.events.what(c, one) is EventKind.SCALER_CREATED
        for one in own
        for c in one.calls
    )
    return makes and any(
        program.events.what(c, one) is EventKind.SCALER_STEP
        and any(_is_parameter(given, one) for given in c.args[:1])
        for one in own
        for c in one.calls
    )


def _is_parameter(expr: ast.expr, scope: Scope) -> bool:
    names = {one.arg for one in scope.parameters()}
    return isinstance(expr, ast.Name) and expr.id in names


def _hands_scaler(call: ast.Call, given: ast.expr) -> bool:
    """Whether a call may hand over the scaler, or what holds its state, beside the optimizer."""
    rest = [*call.args, *(k.value for k in call.keywords)]
    if any(isinstance(one, ast.Starred) for one in rest):
        return True
    words = [ast.unparse(one).lower() for one in rest if one is not given]
    words += [(k.arg or "**").lower() for k in call.keywords]
    return any("scal" in word or "amp" in word or "*" in word for word in words)


def is_handled(program: Program, scope: Scope, method: str) -> bool:
    """Whether the same method of something called a scaler is used in this scope, or around it; to
    load, in another method of the object as well.
    """
    node = scope.node
    if method == "load_state_dict" and is_done_elsewhere(
        program, scope, method
    ):
        return True
    for inner in (
        nodes_in(node) if isinstance(node, FUNCTIONS) else list(scope.calls)
    ):
        if isinstance(inner, ast.Attribute) and inner.attr in {
            "loss_scale",
            "grad_scaler_state",
        }:
            return True
        if isinstance(inner, ast.Call) and is_on_scaler(inner, scope, method):
            return True
    return False


def is_done_elsewhere(
    program: Program,
    scope: Scope,
    method: str,
) -> bool:
    """Whether a method of the same class, or of an heir or a base that keeps the scaler, saves or
    loads its state.
    """
    cls, graph = program.graph.class_around(scope), program.graph
    kin = [*graph.heirs(cls), *graph.lineage(cls)] if cls is not None else []
    return any(
        is_on_scaler(call, other, method)
        for other in program.module.scopes.values()
        if graph.class_around(other) in kin
        for call in other.calls
    )
