"""Parameters for which a caller gives a model, told by its use there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.syntax.module import Scope


def is_given_model(
    program: Program,
    expr: ast.expr,
    scope: Scope,
) -> bool:
    """Whether an argument is a model, by its use here or where a caller gives it."""
    return program.values.is_model(expr, scope) or (
        isinstance(expr, ast.Name)
        and not program.values.of(expr, scope)
        and is_passed(program, expr.id, scope)
    )


def is_passed(program: Program, name: str, scope: Scope) -> bool:
    """Whether a name is a parameter for which a caller gives one."""
    home = scope.lookup(name)
    held = home.bindings[name] if home is not None else ()
    return (
        home is not None
        and [one.how for one in held] == ["parameter"]
        and any(
            program.values.is_model(given, where)
            for given, where in program.values.given(name, home)
            if where is not home
        )
    )
