"""The classes that tables of other files hold, as the files see them that import the tables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.classes.factories import put_by_decorators
from amp_migrate.model.files.neighbours import Definition, Variable
from amp_migrate.model.syntax.module import Module

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def imported_tables(file: Module) -> Iterator[Definition]:
    """The classes that the variables hold which a file imports: `MODELS["unet"]()`."""
    for origin, found in _imported_variables(file):
        home, bindings = found
        key, root = origin.rpartition(".")[2], home.module.root
        yield from put_by_decorators(home, key, root)
        for binding in bindings:
            if binding.value is not None:
                yield from _named_in(home, binding.value)


def homes_of_tables(file: Module) -> Iterator[Program]:
    """The files that hold these variables."""
    for _, found in _imported_variables(file):
        yield found[0]


def _imported_variables(file: Module) -> Iterator[tuple[str, Variable]]:
    """The variables of other files that a file imports by name, and their names there."""
    near = file.neighbours
    if near is None:
        return
    for origin in file.imports.names.values():
        found = near.variable(origin)
        if found is not None:
            yield origin, found


def _named_in(home: Program, value: ast.expr) -> Iterator[Definition]:
    scope = home.module.root
    for node in ast.walk(value):
        if isinstance(node, (ast.Name, ast.Attribute)):
            own = home.graph.class_named(node, scope)
            one = (
                (home, own)
                if own is not None
                else home.values.abroad(node, scope)
            )
            if one is not None:
                yield one
