"""The buffers of a class, and the calls that register them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import FUNCTIONS, Scope

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
    """What `self.bank` is made of, by `self.register_buffer("bank", torch.zeros(9))`, and
    `self.memory.bank` of a module of a class in sight.
    """
    cls = _class_of(program, expr.value, scope)
    if cls is None:
        return None
    known = program.remembered(
        (registrations, cls), lambda: registrations(program, cls)
    )
    for call, where in known:
        first = call.args[0]
        if isinstance(first, ast.Constant) and first.value == expr.attr:
            return call.args[1], where
    return None


def _class_of(
    program: Program, expr: ast.expr, scope: Scope
) -> ast.ClassDef | None:
    if isinstance(expr, ast.Name) and expr.id == scope.self_name:
        return program.graph.class_around(scope)
    is_named = isinstance(expr, (ast.Name, ast.Attribute))
    return program.values.of(expr, scope).cls if is_named else None
