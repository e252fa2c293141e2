"""Training runs under autocast, evaluation in float32."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._half_weights import half_models
from amp_migrate.checks._regions import (
    nodes,
    region_of,
    regions,
    without_gradients,
)
from amp_migrate.config import Settings
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, LOOPS, Scope

RULE = Rule("eval-not-autocast", severity="info", default=False)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find forward passes without gradients outside autocast, in a module that trains
    under it.
    """
    training = {
        id(region.scope.module)
        for region in regions(program)
        if not region.off and _trains(program, region.scope)
    }
    if not training:
        return
    message = (
        "training runs under autocast and this evaluation in float32: slower, and of a "
        "slightly different model"
    )
    for scope in program.module.scopes.values():
        if id(scope.module) not in training:
            continue  # another file, of which nothing says that it belongs to that training
        function = scope.node
        if isinstance(function, FUNCTIONS) and program.effects.is_module_method(
            function
        ):
            continue  # a part of the model: told of where the whole is run
        for call in scope.calls:
            if _runs_model(program, call, scope) and not _is_under(
                program, call
            ):
                yield finding_at(program, call, RULE, message)


def _runs_model(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call runs a model itself, again and again without gradients."""
    if not _is_repeated(program, call):
        return False
    if _is_half_itself(program, call.func, scope):
        return False  # autocast would cast nothing: the weights are half
    if not _names_model(program, call.func, scope):
        return False  # `group["filter"](p)`, `tracker.add(metrics)`, `metrics(model)`
    if not program.effects.is_forward(call, scope) or program.values.callee(
        call, scope
    ):
        return False
    return not _is_function(program, call.func, scope)


def _is_half_itself(program: Program, func: ast.expr, scope: Scope) -> bool:
    """Whether what is called is a model that its function has converted, or a method of one."""
    name = dotted_name(func) or ""
    home = scope.lookup(name.partition(".")[0])
    return home is not None and any(
        name == model or name.startswith(f"{model}.")
        for model in half_models(program, home)
    )


def _names_model(program: Program, func: ast.expr, scope: Scope) -> bool:
    """Whether what is called may be a model: a method is one of a model, a function of an imported
    module is none.
    """
    is_model = program.values.is_model
    if is_model(func, scope):
        return True
    if not isinstance(func, ast.Attribute):
        return not isinstance(func, ast.Subscript)
    holder = func.value
    is_own = isinstance(holder, ast.Name) and holder.id == scope.self_name
    return is_own or is_model(holder, scope)


def _is_function(
    program: Program, func: ast.expr, scope: Scope, hops: int = 3
) -> bool:
    """Whether a caller may pass a function in sight, which is judged where it is written."""
    if program.graph.function_at(func, scope) is not None:
        return True
    found = program.values.abroad(func, scope)
    if found is not None and isinstance(found[1], FUNCTIONS):
        return True
    home = (
        scope.lookup(func.id) if isinstance(func, ast.Name) and hops else None
    )
    given = (
        program.values.given(func.id, home)
        if home and isinstance(func, ast.Name)
        else []
    )
    return any(
        _is_function(program, one, where, hops - 1) for one, where in given
    )


def _is_under(program: Program, call: ast.Call) -> bool:
    """Whether a call runs under autocast, or is the arm of an `if` for the case that AMP is off."""
    if program.regions.around(call):
        return True
    inner: ast.AST = call
    for around in program.module.ancestors(call):
        if isinstance(around, ast.If) and inner is not around.test:
            other = (
                around.body
                if any(inner is one for one in around.orelse)
                else around.orelse
            )
            if any(
                region_of(program, node) is not None for node in nodes(other)
            ):
                return True
        if isinstance(around, ast.Lambda) and region_of(program, around):
            return True  # handed over there, and called
        inner = around
    return False


def _trains(program: Program, scope: object) -> bool:
    events = program.events
    return any(
        events.what(c, s) == EventKind.BACKWARD
        for s in program.module.scopes.values()
        if s is scope
        for c in s.calls
    )


def _is_repeated(
    program: Program,
    node: ast.Call,
    is_free: bool = False,
    loops: bool = False,
    hops: int = 3,
) -> bool:
    """Whether `node` runs again and again without gradients, here or at every caller."""
    is_free = is_free or without_gradients(program, node)
    loops = loops or _in_loop(program, node)
    if is_free and loops:
        return True
    function = program.module.scope_of(node).node
    if not hops or not isinstance(function, FUNCTIONS):
        return False
    sites = program.graph.sites(function)
    return bool(sites) and all(
        _is_repeated(program, site.call, is_free, loops, hops - 1)
        for site in sites
    )


def _in_loop(program: Program, call: ast.Call) -> bool:
    return any(
        isinstance(
            a, (*LOOPS, ast.comprehension, ast.GeneratorExp, ast.ListComp)
        )
        for a in program.module.ancestors(call)
    )
