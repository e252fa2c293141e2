"""A gradient penalty is computed from gradients that carry the wrong factor."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import Events
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import names_in, nodes_in
from amp_migrate.model.tensors.parameters import all_arguments

RULE = Rule("grad-penalty-on-scaled-grads", severity="error")


_SCALED = (
    "these gradients still carry the scaler's factor (65,536 at first), so the penalty "
    "swamps the loss; multiply them "
    "by `1.0 / scaler.get_scale()` first"
)
_PLAIN = (
    "these gradients were never scaled, so divided by the scaler's factor (65,536 at first) they "
    "are next to nothing; differentiate `scaler.scale(...)` of the outputs, or do not divide"
)
_GETTERS = {"get_scale", "_get_scale_async"}


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find `autograd.grad(scaler.scale(...), create_graph=True)` in scopes that never ask for
    the scale, and plain ones whose gradients are divided by it.
    """
    if "create_graph" not in program.module.text:
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            name = program.canonical(call.func)
            if name != "torch.autograd.grad" or not _keeps_graph(call):
                continue
            asks = any(_asks(one) for one in scope.calls)
            if not asks and _of_scaled(program.events, call, scope):
                yield finding_at(program, call, RULE, _SCALED)
            elif asks and _divides_plain(program, call, scope):
                yield finding_at(program, call, RULE, _PLAIN)


def _asks(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _GETTERS


def _divides_plain(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether what is differentiated is scaled neither here nor by any caller in sight, and the
    gradients are divided by the scale.
    """
    outputs = _outputs(call)
    if not isinstance(outputs, ast.Name) or _names_scale(scope.node):
        return False
    home = scope.lookup(outputs.id)
    bindings = home.bindings[outputs.id] if home is not None else []
    handed = [one for one in bindings if one.how == "parameter"]
    given = [pair for one in handed for pair in all_arguments(program, one)]
    is_known = home is scope and bool(bindings) and bool(given or not handed)
    is_plain = not any(
        _may_be_scaled(program, one, where) for one, where in given
    )
    gradients = _flows(scope, lambda node: node is call)
    factors = _flows(
        scope, lambda node: isinstance(node, ast.Call) and _asks(node)
    )
    return (
        is_known
        and is_plain
        and any(
            isinstance(node, ast.BinOp)
            and isinstance(node.op, (ast.Mult, ast.Div))
            and names_in(node.left) & gradients
            and (names_in(node.right) & factors or _has_getter(node.right))
            for node in nodes_in(scope.node)
        )
    )


def _may_be_scaled(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether a scaler has multiplied an argument, or nothing tells what it is."""
    if not isinstance(expr, ast.Name):
        return _names_scale(expr)
    home = scope.lookup(expr.id)
    values = (
        [one.value for one in home.bindings[expr.id]]
        if home is not None
        else []
    )
    return not values or any(one is None or _names_scale(one) for one in values)


def _names_scale(node: ast.AST) -> bool:
    """Whether `scaler.scale` is called or handed on: `map(scaler.scale, outputs)`."""
    return any(
        isinstance(one, ast.Attribute) and one.attr == "scale"
        for one in nodes_in(node)
    )


def _has_getter(expr: ast.expr) -> bool:
    """Whether any call in an expression asks for gradients."""
    return any(
        isinstance(one, ast.Call) and _asks(one) for one in nodes_in(expr)
    )


def _flows(scope: Scope, starts: Callable[[ast.AST], bool]) -> set[str]:
    """The names that are given something, or what was made of it."""
    found: set[str] = set()
    for node in [*nodes_in(scope.node)] * 2:
        if isinstance(node, ast.Assign) and (
            names_in(node.value) & found
            or any(starts(one) for one in nodes_in(node.value))
        ):
            found |= {
                name for target in node.targets for name in names_in(target)
            }
    return found


def _keeps_graph(call: ast.Call) -> bool:
    given = next(
        (k.value for k in call.keywords if k.arg == "create_graph"), None
    )
    return given is not None and not (
        isinstance(given, ast.Constant) and not given.value
    )


def _outputs(call: ast.Call) -> ast.expr | None:
    return (
        call.args[0]
        if call.args
        else next((k.value for k in call.keywords if k.arg == "outputs"), None)
    )


def _of_scaled(events: Events, call: ast.Call, scope: Scope) -> bool:
    outputs = _outputs(call)
    if isinstance(outputs, ast.Name):
        home = scope.lookup(outputs.id)
        values = (
            [b.value for b in home.bindings[outputs.id]]
            if home is not None
            else []
        )
        return bool(values) and all(
            v is not None and _is_scaled(events, v, scope) for v in values
        )
    return outputs is not None and _is_scaled(events, outputs, scope)


def _is_scaled(events: Events, expr: ast.expr, scope: Scope) -> bool:
    parts = expr.elts if isinstance(expr, (ast.List, ast.Tuple)) else [expr]
    return any(events.what(part, scope) == EventKind.SCALE for part in parts)
