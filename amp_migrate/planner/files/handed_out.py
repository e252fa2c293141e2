"""By which names other files get at a scope, and at what makes the objects whose method it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.targets import made_classes
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, returned
from amp_migrate.model.syntax.queries import names_in
from amp_migrate.model.values.tables import entries_of
from amp_migrate.project.import_paths import resolved


def names_of(scope: Scope, program: Program) -> list[str]:
    """What other files call the scope by: its function, or the class of its method."""
    cls = program.graph.class_around(scope)
    if cls is not None:
        return [cls.name, *_factories(cls, program)]
    here: Scope | None = scope
    while here is not None and here.parent is not None:
        if isinstance(here.node, FUNCTIONS) and isinstance(
            here.parent.node, ast.Module
        ):
            return [here.node.name]
        here = here.parent
    return []


def handed_out(scope: Scope, program: Program) -> Iterator[tuple[str, str]]:
    """The files and names by which others get at a scope: its own, those of heirs of its class,
    and tables that hold one of these.
    """
    here = resolved(scope.module.path)
    yield from ((here, name) for name in names_of(scope, program))
    cls = program.graph.class_around(scope)
    heirs = program.graph.heirs(cls) if cls is not None else []
    for heir in heirs:
        if heir is not cls:
            inner = program.module.scopes[heir]
            yield resolved(inner.module.path), heir.name
    for name, file in _tables({one.name for one in heirs}, program):
        yield file, name


def _tables(names: set[str], program: Program) -> Iterator[tuple[str, str]]:
    """The tables of modules that hold one of the names, and their files."""
    for file in program.module.files if names else ():
        for name in file.root.bindings:
            held = entries_of(file.root, name)
            if any(names & names_in(one) for one in held):
                yield name, resolved(file.path)


def _factories(cls: ast.ClassDef, program: Program) -> list[str]:
    """The functions that give back a class, or an object of it."""
    return [
        one.node.name
        for one in program.module.scopes.values()
        if isinstance(one.node, FUNCTIONS)
        and one.parent is not None
        and isinstance(one.parent.node, ast.Module)
        and any(
            cls.name in names_in(value)
            or cls in made_classes(program, value, one)
            for value in returned(one.node)
        )
    ]


def made_by(scope: Scope, program: Program) -> Iterator[tuple[str, str]]:
    """The files and names of what makes the objects whose method a scope is: who makes that gives
    it what it hands on.
    """
    cls = program.graph.class_around(scope)
    for heir in program.graph.heirs(cls) if cls is not None else ():
        for _, where in program.graph.constructions(heir):
            here = resolved(where.module.path)
            yield from ((here, name) for name in names_of(where, program))
