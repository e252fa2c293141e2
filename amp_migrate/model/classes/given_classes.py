"""Names that may hold a class: `actor_critic=core.ActorCritic` gives a function its model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import default_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.tensors.parameters import arguments, parameter_of

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 3


def may_be_class(
    program: Program, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether what a name holds may be a class, by what is assigned, the default of a parameter, or
    what callers in sight pass: it has the methods of a module, and needs an object for them.
    """
    name = dotted_name(expr)
    if name is None or not deep:
        return False
    if _names_class(program, expr, scope):
        return True
    return any(
        may_be_class(program, value, where, deep - 1)
        for binding in program.reaching.at(expr, name).bindings
        for value, where in given_values(program, binding, scope)
    )


def _names_class(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """A class in sight, or a name of a library that is written as classes are."""
    if program.graph.class_named(expr, scope) is not None:
        return True
    definition = program.values.abroad(expr, scope)
    if definition is not None:
        return isinstance(definition[1], ast.ClassDef)
    imported = program.canonical(expr) or ""
    return imported.rpartition(".")[2][:1].isupper()


def given_values(
    program: Program, binding: Binding, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What a binding may give its name."""
    found = parameter_of(program, binding)
    if found is not None:
        function, inner, name = found
        yield from arguments(program, binding)
        default = default_of(function, name)
        if default is not None:
            yield default, inner.parent or inner
    elif binding.value is not None and binding.value in program.module.parents:
        if binding.how == "assign" and binding.index is None:
            yield binding.value, program.module.scope_of(binding.value)
