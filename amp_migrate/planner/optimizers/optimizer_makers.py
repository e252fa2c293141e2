"""Methods that make an optimizer of what their object holds: `self.opt = self.make_opt(lr)`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope, returned
from amp_migrate.model.syntax.queries import nodes_in


def asked_by_makers(
    program: Program,
    place: ast.stmt,
    scope: Scope,
    asked: Callable[[ast.expr], list[ast.expr]],
) -> Iterator[ast.expr]:
    """`self.model` of what a method of the same object returns, by the name that it has there."""
    for call in (n for n in nodes_in(place) if isinstance(n, ast.Call)):
        head, _, method = (dotted_name(call.func) or "").rpartition(".")
        function = program.values.callee(call, scope) if method else None
        if function is None or head != scope.self_name:
            continue
        own = f"{program.scope(function).self_name}."
        for value in returned(function):
            for model in asked(value):
                if head and f"{dotted_name(model)}".startswith(own):
                    yield model
