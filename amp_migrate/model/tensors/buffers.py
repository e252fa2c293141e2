"""The buffers of a class, and the calls that register them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax import FUNCTIONS, Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def registrations(
    program: Program, cls: ast.ClassDef
) -> list[tuple[ast.Call, Scope]]:
    """The calls in a class, and in its bases, that register buffers."""
    scopes = program.module.scopes
    owners = program.graph.lineage(cls)
    methods = [
        one
        for owner in owners
        for one in owner.body
        if isinstance(one, FUNCTIONS)
    ]
    return [
        (call, scopes[method])
        for method in methods
        for call in scopes[method].calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "register_buffer"
        and len(call.args) > 1
    ]


def registered(
    program: Program, expr: ast.Attribute, scope: Scope
) -> tuple[ast.expr, Scope] | None:
    """What `self.bank` is made of, by `self.register_buffer("bank", torch.zeros(9))`."""
    cls = program.graph.class_around(scope)
    if cls is None or not isinstance(expr.value, ast.Name):
        return None
    if expr.value.id != scope.self_name:
        return None
    known = program.remembered(
        (registrations, cls), lambda: registrations(program, cls)
    )
    for call, where in known:
        first = call.args[0]
        if isinstance(first, ast.Constant) and first.value == expr.attr:
            return call.args[1], where
    return None
