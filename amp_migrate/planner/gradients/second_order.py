"""Backwards that keep the graph for gradients of gradients: the inner ones would be scaled.

Where nothing but an optimizer of second order asks for them, AMP is off for such optimizers.
"""

from __future__ import annotations

import ast

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.model.syntax.queries import holds
from amp_migrate.model.values.kinds import Kind, Value
from amp_migrate.planner.refusal import Refusal
from amp_migrate.torch_facts.optimizers import SECOND_ORDER_MARK

_HOPS = 4


def marked_optimizers(program: Program, function: ast.AST) -> list[ast.expr]:
    """The optimizers whose mark alone decides whether a function keeps the graph of its gradients.
    Raises Refusal where something else may.
    """
    asked: list[ast.expr] = []
    body = getattr(function, "body", None)
    for statement in body if isinstance(body, list) else ():
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            for node in shallow(statement):
                if isinstance(node, ast.Call) and _takes_gradients(
                    program, node
                ):
                    asked += _asked_by(program, node)
    return asked


def _takes_gradients(program: Program, call: ast.Call) -> bool:
    canonical = program.canonical(call.func)
    if canonical == "torch.func.grad":
        return True
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in (
        "backward",
        "grad",
    )
    return (
        is_method and canonical != "torch.autograd.grad"
    )  # `penalties` keeps those in float32


def grad_keeps_graph(program: Program, call: ast.Call) -> bool:
    """`torch.autograd.grad(..., create_graph=True)`"""
    if program.canonical(call.func) != "torch.autograd.grad":
        return False
    given = {one.arg: one.value for one in call.keywords}
    graph = given.get("create_graph")
    scope = program.module.scope_of(call)
    return graph is not None and _may_be_true(program, graph, scope, [])


def _asked_by(program: Program, call: ast.Call) -> list[ast.expr]:
    graph = next(
        (k.value for k in call.keywords if k.arg == "create_graph"), None
    )
    scope = program.module.scope_of(call)
    asked: list[ast.expr] = []
    if graph is not None and _may_be_true(program, graph, scope, asked):
        raise keeps_graph(call, above=isinstance(graph, ast.Name))
    return asked


def keeps_graph(node: ast.AST, *, above: bool = False) -> Refusal:
    """Why a loop that keeps the graph of its gradients is left alone."""
    why = "gradients of gradients: the inner ones would be scaled too"
    return Refusal("double-backward", node, why, above=above)


def _may_be_true(
    program: Program,
    expr: ast.expr,
    scope: Scope,
    asked: list[ast.expr],
    hops: int = _HOPS,
) -> bool:
    """Whether a switch may be true, callers and defaults included, on other grounds than the mark
    of an optimizer of second order; those that are asked for it are added to `asked`.
    """
    if isinstance(expr, ast.Constant):
        return bool(expr.value)
    if isinstance(expr, ast.BoolOp):
        parts = (
            _may_be_true(program, value, scope, asked, hops)
            for value in expr.values
        )
        return all(parts) if isinstance(expr.op, ast.And) else any(parts)
    holder = _marked(expr)
    if holder is not None:
        if not _lacks_mark(program, holder, scope):
            asked.append(holder)
        return False
    if not isinstance(expr, ast.Name) or not hops:
        return True
    return _may_be_bound_true(program, expr, scope, asked, hops)


def _may_be_bound_true(
    program: Program,
    expr: ast.Name,
    scope: Scope,
    asked: list[ast.expr],
    hops: int,
) -> bool:
    """Whether what a name is bound to, or what callers pass for it, may be true."""
    reach = program.reaching.at(expr, expr.id)
    given = [b for b in reach.bindings if b.how == "parameter"]
    others = [b.value for b in reach.bindings if b.how != "parameter"]
    if not reach.bindings or any(
        b.how not in ("parameter", "assign") for b in reach.bindings
    ):
        return True
    inner = program.module.scope_of
    return any(
        _may_be_passed(program, scope, expr.id, asked, hops) for _ in given[:1]
    ) or any(
        value is None
        or value not in program.module.parents
        or _may_be_true(program, value, inner(value), asked, hops - 1)
        for value in others
    )


def _marked(expr: ast.expr) -> ast.expr | None:
    """`optimizer` of `hasattr(optimizer, "is_second_order")`, or of its value."""
    if isinstance(expr, ast.Attribute):
        return expr.value if expr.attr == SECOND_ORDER_MARK else None
    if not isinstance(expr, ast.Call) or dotted_name(expr.func) not in (
        "hasattr",
        "getattr",
    ):
        return None
    rest = [
        one.value if isinstance(one, ast.Constant) else one
        for one in expr.args[1:]
    ]
    absent = len(rest) == 1 or len(rest) == 2 and not rest[1]
    return expr.args[0] if absent and rest[0] == SECOND_ORDER_MARK else None


def _lacks_mark(program: Program, holder: ast.expr, scope: Scope) -> bool:
    """Whether an optimizer is none of those of second order."""
    value = program.values.of(holder, scope)
    # A factory of a library may make any of the library's optimizers.
    is_class = (
        value.cls is not None
        or (value.name or "").rpartition(".")[2][:1].isupper()
    )
    is_known = value.kind is Kind.OPTIMIZER and is_class and not value.mixed
    return is_known and not _has(value, SECOND_ORDER_MARK)


def _has(value: Value, mark: str) -> bool:
    """Whether a class of the project names the attribute."""
    own = value.cls or (value.foreign[1] if value.foreign is not None else None)
    return own is not None and holds(own, lambda n: mark in _names_of(n))


def _names_of(node: ast.AST) -> tuple[object, ...]:
    return (
        getattr(node, "attr", None),
        getattr(node, "id", None),
        getattr(node, "name", None),
    )


def _may_be_passed(
    program: Program, scope: Scope, name: str, asked: list[ast.expr], hops: int
) -> bool:
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
        if expr is None and (
            default is None or _hides(call) or bool(default.value)
        ):
            return True
        if expr is not None and _may_be_true(
            program, expr, where, asked, hops - 1
        ):
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
    value = next(
        (default for parameter, default in pairs if parameter.arg == name), None
    )
    return value if isinstance(value, ast.Constant) else None
