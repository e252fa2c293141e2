"""What a scaler is bound to where it would be read."""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import LOOPS, Scope

_NOT_ALWAYS_ONE = (
    ast.IfExp,
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.ListComp,
    ast.DictComp,
)


def bindings(
    program: Program, scope: Scope, scaler: str
) -> list[tuple[ast.AST, ast.expr | None]]:
    """The statements that set a scaler, and the values."""
    head, _, rest = scaler.partition(".")
    around = program.graph.class_around(scope)
    home = (
        program.module.scopes[around]
        if rest and around is not None
        else scope.lookup(head)
    )
    name = f"self.{rest}" if rest else head
    return (
        [(b.statement, b.value) for b in home.bindings.get(name, [])]
        if home is not None
        else []
    )


def may_be_none(program: Program, scope: Scope, scaler: str) -> bool:
    """A scaler that some programs leave out: None by default, or made under a condition; or one of
    several.
    """
    found = bindings(program, scope, scaler)
    for statement, value in found:
        if isinstance(statement, (*LOOPS, ast.comprehension)):
            return True
        if isinstance(value, _NOT_ALWAYS_ONE) or any(
            isinstance(a, ast.If) for a in program.module.ancestors(statement)
        ):
            return True
        if isinstance(statement, ast.arg) and _defaults_to_none(
            program, statement
        ):
            return True
    return not found


def _defaults_to_none(program: Program, parameter: ast.arg) -> bool:
    arguments = program.module.parents[parameter]
    if not isinstance(arguments, ast.arguments):
        return True
    positional = [*arguments.posonlyargs, *arguments.args]
    defaulted = [
        *positional[len(positional) - len(arguments.defaults) :],
        *(
            a
            for a, d in zip(
                arguments.kwonlyargs, arguments.kw_defaults, strict=True
            )
            if d
        ),
    ]
    return parameter in defaulted


def made_before(
    program: Program, call: ast.Call, scope: Scope, scaler: str
) -> bool:
    """A name of this scope must be bound above."""
    return all(
        program.module.scope_of(statement) is not scope
        or isinstance(statement, ast.arg)
        or getattr(statement, "lineno", 0) < call.lineno
        for statement, _ in bindings(program, scope, scaler)
    )
