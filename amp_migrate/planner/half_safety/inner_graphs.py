"""Functions of autograd that build a graph of their own from their inputs, and ask of each whether
it takes gradients: `detached.requires_grad = x.requires_grad`.

`custom_fwd(cast_inputs=...)` hands them copies that were cast where no graph is built, and which
take none. Without `cast_inputs` they run under the caller's autocast, forward and backward.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.bodies_abroad import body_abroad
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.half_safety.autograd_functions import Custom

_HOPS = 2


def copies_flags(custom: Custom) -> bool:
    """Whether its forward hands on whether an input takes gradients."""
    forward = custom.method("forward")
    return forward is not None and _asks(custom.program, forward, _HOPS)


def is_in_sight(program: Program, node: ast.AST) -> bool:
    """Whether a node calls a function of another file of the project."""
    if not isinstance(node, ast.Call):
        return False
    scope = program.module.scope_of(node)
    return body_abroad(program, node, scope) is not None


def _asks(program: Program, function: Function, hops: int) -> bool:
    if any(map(_sets_flag, nodes_in(function))):
        return True
    called = _called(program, function) if hops else ()
    return any(_asks(home, one, hops - 1) for home, one in called)


def _sets_flag(node: ast.AST) -> bool:
    """`y.requires_grad = x.requires_grad`, `y.requires_grad_(x.requires_grad)`."""
    if isinstance(node, ast.Call):
        last = dotted_name(node.func) or ""
        named = last.endswith(".requires_grad_")
        return named and any(map(_is_flag, node.args))
    if not isinstance(node, ast.Assign):
        return False
    return _is_flag(node.targets[0]) and _is_flag(node.value)


def _is_flag(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Attribute) and expr.attr == "requires_grad"


def _called(
    program: Program, function: Function
) -> Iterator[tuple[Program, Function]]:
    scope = program.scope(function)
    for call in scope.calls:
        own = program.values.callee(call, scope)
        if own is not None:
            yield program, own
        else:
            found = body_abroad(program, call, scope)
            yield from () if found is None else (found,)
