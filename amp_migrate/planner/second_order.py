"""Backwards that keep the graph for gradients of gradients: the inner ones would be scaled."""

from __future__ import annotations

import ast

from amp_migrate.model.calls import argument
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Scope, shallow
from amp_migrate.planner.refusal import Refusal

_HOPS = 4


def refuse_second_order(program: Program, function: ast.AST) -> None:
    """Raise Refusal where a function may keep the graph of its gradients."""
    body = getattr(function, "body", None)
    for statement in body if isinstance(body, list) else ():
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            for node in shallow(statement):
                if isinstance(node, ast.Call) and _takes_gradients(program, node):
                    _refuse(program, node)


def _takes_gradients(program: Program, call: ast.Call) -> bool:
    canonical = program.canonical(call.func)
    if canonical == "torch.func.grad":
        return True
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in ("backward", "grad")
    return is_method and canonical != "torch.autograd.grad"  # `penalties` keeps those in float32


def _refuse(program: Program, call: ast.Call) -> None:
    graph = next((k.value for k in call.keywords if k.arg == "create_graph"), None)
    scope = program.module.scope_of(call)
    if graph is None or not _may_be_true(program, graph, scope):
        return
    raise Refusal(
        "double-backward",
        call,
        "gradients of gradients: the inner ones would be scaled too",
        above=isinstance(graph, ast.Name),
    )


def _may_be_true(program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS) -> bool:
    """Whether a switch is not the constant False on every way, callers and defaults included."""
    if isinstance(expr, ast.Constant):
        return bool(expr.value)
    if not isinstance(expr, ast.Name) or not hops:
        return True
    reach = program.reaching.at(expr, expr.id)
    given = [b for b in reach.bindings if b.how == "parameter"]
    others = [b.value for b in reach.bindings if b.how != "parameter"]
    if not reach.bindings or any(b.how not in ("parameter", "assign") for b in reach.bindings):
        return True
    inner = program.module.scope_of
    return any(_may_be_passed(program, scope, expr.id, hops) for _ in given[:1]) or any(
        value is None
        or value not in program.module.parents
        or _may_be_true(program, value, inner(value), hops - 1)
        for value in others
    )


def _may_be_passed(program: Program, scope: Scope, name: str, hops: int) -> bool:
    """The same of a parameter."""
    home = scope.lookup(name)
    if home is None or not isinstance(home.node, FUNCTIONS):
        return True
    entry = program.reaching.entry
    sites = entry.sites(home.node)
    default = _default(home, name)
    if not sites or entry.escapes(home.node):
        return True
    for call, where, bound in sites:
        expr = argument(call, home, name, bound)
        if expr is None and (default is None or _hides(call) or bool(default.value)):
            return True
        if expr is not None and _may_be_true(program, expr, where, hops - 1):
            return True
    return False


def _hides(call: ast.Call) -> bool:
    """Whether an argument may be among `*args` or `**kwargs`."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(
        k.arg is None for k in call.keywords
    )


def _default(home: Scope, name: str) -> ast.Constant | None:
    if not isinstance(home.node, FUNCTIONS):
        return None
    arguments = home.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    value = next((default for parameter, default in pairs if parameter.arg == name), None)
    return value if isinstance(value, ast.Constant) else None
