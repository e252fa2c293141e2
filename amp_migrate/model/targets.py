"""The functions in sight that a call runs: helpers, methods, and the `forward` of models and of their layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.kinds import Kind
from amp_migrate.model.syntax import FUNCTIONS, Function, Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def targets(program: Program, call: ast.Call, scope: Scope) -> Iterator[Function]:
    """What `call` runs; a call of a model runs the `forward` of every class that its body names."""
    function = program.values.callee(call, scope)
    if function is not None:
        yield function
    value = program.values.of(call.func, scope)
    classes = [value.cls] if value.cls is not None else []
    if value.kind is Kind.MODEL and value.origin is not None:
        named = (node for node in ast.walk(value.origin) if isinstance(node, ast.Name))
        classes += [cls for node in named if (cls := program.graph.class_named(node, scope))]
    for cls in classes:
        yield from _forwards(program, cls)


def _forwards(program: Program, cls: ast.ClassDef) -> Iterator[Function]:
    scope = program.module.scopes[cls]
    names = (node for node in ast.walk(cls) if isinstance(node, ast.Name))
    named = [found for node in names if (found := program.graph.class_named(node, scope))]
    for owner in {id(one): one for one in [cls, *named]}.values():
        for name in ("forward", "__call__"):
            method = program.graph.method(owner, name)
            if isinstance(method, FUNCTIONS):
                yield method
