"""The calls that register the buffers of a class."""

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
