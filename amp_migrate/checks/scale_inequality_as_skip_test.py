"""A change of the scale is taken for a skipped step, but the scale also grows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Scope,
    returned_at,
)

_HOPS = 3
RULE = Rule("scale-inequality-as-skip-test", severity="warning")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find `==` and `!=` between two values of the scale."""
    if "get_scale" not in program.module.text:
        return
    message = (
        "the scale also changes when it grows, so a real step counts as skipped; a step was "
        "skipped where the scale "
        "is smaller than before"
    )
    for node in program.module.parents:
        if (
            not isinstance(node, ast.Compare)
            or len(node.ops) != 1
            or not isinstance(node.ops[0], (ast.Eq, ast.NotEq))
        ):
            continue
        scope = program.module.scope_of(node)
        left, right = (
            _taken(program, node.left, scope),
            _taken(program, node.comparators[0], scope),
        )
        if left is None or right is None:
            continue
        update = _update_between(program, left, right) or _elsewhere(
            program, node
        )
        if update is None:
            continue
        yield finding_at(
            program,
            node,
            RULE,
            message,
            related=[(update, "the scale may change here")],
            fix=_fix(program, node, left, right),
        )


def _taken(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> ast.Call | None:
    """The `get_scale()` call whose value `expr` is, through so many callers."""
    if isinstance(expr, ast.Name):
        home = scope.lookup(expr.id)
        if home is not None and home.bindings[expr.id][0].how == "parameter":
            return _handed(program, expr.id, home, hops - 1) if hops else None
        values = (
            [
                b.value
                for b in home.bindings[expr.id]
                if b.value is not None and b.index is None
            ]
            if home
            else []
        )
        found = [
            value
            for value in values
            if isinstance(value, ast.Call)
            and _is_get_scale(program, value, home or scope)
        ]
        if home is not None and not values and hops:
            return _given_back(program, expr.id, home, hops - 1)
        return found[-1] if found and len(found) == len(values) else None
    if isinstance(expr, ast.Attribute):
        return _stored(program, expr, scope)
    return expr if _is_get_scale(program, expr, scope) else None  # type: ignore[return-value]


def _given_back(
    program: Program, name: str, home: Scope, hops: int
) -> ast.Call | None:
    """The `get_scale()` call whose value a function gives back as one of several."""
    found = [
        _taken(program, part, program.module.scopes[function], hops)
        for one in home.bindings[name]
        if one.index is not None and isinstance(one.value, ast.Call)
        for function in program.values.callees(one.value, home)
        for part in returned_at(function, one.index)
    ]
    return found[0] if found and None not in found else None


def _handed(
    program: Program, name: str, home: Scope, hops: int
) -> ast.Call | None:
    """The `get_scale()` call whose value each caller hands over."""
    if not isinstance(home.node, FUNCTIONS):
        return None
    sites = program.graph.sites(home.node)
    given = [
        (argument(site.call, home, name, site.bound), site.scope)
        for site in sites
    ]
    found = [
        _taken(program, one, there, hops)
        for one, there in given
        if one is not None
    ]
    return (
        found[0]
        if found and len(found) == len(sites) and None not in found
        else None
    )


def _stored(
    program: Program, expr: ast.Attribute, scope: Scope
) -> ast.Call | None:
    """The `get_scale()` call whose value an attribute of the object always has."""
    cls = program.graph.class_around(scope)
    name = dotted_name(expr) or ""
    if cls is None or name.partition(".")[0] != scope.self_name:
        bindings = _set_on_others(program, name, scope)
    else:
        home = program.module.scopes[cls]
        bindings = home.bindings.get("self." + name.partition(".")[2], [])
    values = [
        b.value for b in bindings if not isinstance(b.value, ast.Constant)
    ]  # what it is before the first step is no scale
    found = [
        _taken(program, value, program.module.scope_of(value), 1)
        if value is not None and not isinstance(value, ast.Attribute)
        else None
        for value in values
    ]
    return found[0] if found and None not in found else None


def _set_on_others(program: Program, name: str, scope: Scope) -> list[Binding]:
    """What is given to an attribute of a parameter: `trainer.scale` of whatever trainer, by all
    that set one of that name.
    """
    head, _, rest = name.partition(".")
    home = scope.lookup(head)
    if not rest or "." in rest or home is None:
        return []
    if {one.how for one in home.bindings[head]} != {"parameter"}:
        return []
    return [
        binding
        for one in program.module.scopes.values()
        for own, bindings in one.bindings.items()
        if own.endswith(f".{rest}")
        for binding in bindings
    ]


def _elsewhere(program: Program, node: ast.Compare) -> ast.expr | None:
    """What was stored and is compared later lies an update apart, wherever that is."""
    stored = [
        one
        for one in (node.left, *node.comparators)
        if isinstance(one, ast.Attribute)
    ]
    return stored[0] if len(stored) == 1 else None


def _is_get_scale(program: Program, expr: ast.expr, scope: Scope) -> bool:
    func = expr.func if isinstance(expr, ast.Call) else None
    return (
        isinstance(func, ast.Attribute)
        and func.attr == "get_scale"
        and (
            program.events.is_scaler(func.value, scope)
            or _is_named_scaler(func.value)
        )
    )


def _is_named_scaler(expr: ast.expr) -> bool:
    """What has a scale to get and is called so is torch's scaler, of whatever object."""
    return "scaler" in (dotted_name(expr) or "").rpartition(".")[2].lower()


def _update_between(
    program: Program, left: ast.Call, right: ast.Call
) -> ast.Call | None:
    """The update between two calls of a function; behind the call of another function that gives
    back its value, any update there.
    """
    events, scope_of = program.events, program.module.scope_of
    first, last = sorted((left, right), key=lambda call: call.lineno)
    is_one = scope_of(left) is scope_of(right)
    return next(
        (
            call
            for scope in dict.fromkeys((scope_of(left), scope_of(right)))
            for call in scope.calls
            if events.what(call, scope) == EventKind.UPDATE
            and (not is_one or first.lineno <= call.lineno <= last.lineno)
        ),
        None,
    )


def _fix(
    program: Program, node: ast.Compare, left: ast.Call, right: ast.Call
) -> Fix:
    own, scope_of = program.module.scope_of(node), program.module.scope_of
    is_late = (scope_of(left) is own, left.lineno, left.col_offset) > (
        scope_of(right) is own,
        right.lineno,
        right.col_offset,
    )
    if isinstance(node.left, ast.Attribute) or isinstance(
        node.comparators[0], ast.Attribute
    ):
        is_late = isinstance(
            node.comparators[0], ast.Attribute
        )  # what is stored is older
    unequal = isinstance(node.ops[0], ast.NotEq)
    sign = ("<" if is_late else ">") if unequal else (">=" if is_late else "<=")
    edit = Code(program, node).replace(
        node, f"$0 {sign} $1", node.left, node.comparators[0]
    )
    return Fix("safe", "ask whether the scale is smaller than before", (edit,))
