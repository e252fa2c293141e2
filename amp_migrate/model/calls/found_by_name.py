"""The classes and functions that a name made at run time may find: `eval(kind)`, `globals()[kind]`,
`getattr(models, kind)`, `importlib.import_module(kind)`. Any that the searched names hold may be
meant.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.classes.looked_up import module_searched
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Module, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.project.import_paths import resolved

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Definition
    from amp_migrate.model.program import Program

_OWN_NAMES = ("eval", "globals", "locals", "vars")
_OWN_MODULE = "sys.modules"


def found_by_name(
    program: Program, place: ast.AST, scope: Scope
) -> Iterator[Definition]:
    """The definitions that the lookups in `place` may find, here or in other files."""
    for node in nodes_in(place):
        if _searches_own_names(node):
            yield from names_of(program, scope.module)
            continue
        searched = (
            module_searched(node)
            if isinstance(node, (ast.Call, ast.Attribute))
            else None
        )
        if searched is None:
            continue
        if _searches_own_module(searched):
            yield from names_of(program, scope.module)
            continue
        found = program.reaching.imported.exported(searched, scope)
        yield from (at_home(program, one) for one in found)


def _searches_own_names(node: ast.AST) -> bool:
    """`eval(kind)`, `globals()[kind]`, `vars()[kind]`"""
    if not isinstance(node, ast.Call):
        return False
    name = dotted_name(node.func)
    if name == "eval":
        return bool(node.args) and not isinstance(node.args[0], ast.Constant)
    return name in _OWN_NAMES and not node.args


def _searches_own_module(searched: ast.expr) -> bool:
    """`getattr(sys.modules[__name__], kind)`"""
    return (
        isinstance(searched, ast.Subscript)
        and dotted_name(searched.value) == _OWN_MODULE
        and dotted_name(searched.slice) == "__name__"
    )


def names_of(program: Program, file: Module) -> tuple[Definition, ...]:
    """What a file has names for at its top: its own classes and functions, and those that it
    imports from other files of the project.
    """
    return program.remembered(
        (names_of, file),
        lambda: tuple(dict.fromkeys(_names_of(program, file))),
    )


def _names_of(program: Program, file: Module) -> Iterator[Definition]:
    for name in file.root.bindings:
        yield from _bound(program, file.root, name)
    near = file.neighbours
    for star in file.imports.stars if near is not None else ():
        found = near.exported(star) if near is not None else []
        yield from (at_home(program, one) for one in found)


def _bound(program: Program, root: Scope, name: str) -> Iterator[Definition]:
    """What a name at the top of a file is bound to, if it is a class or a function."""
    for binding in root.bindings.get(name, ()):
        if isinstance(binding.statement, (*FUNCTIONS, ast.ClassDef)):
            yield program, binding.statement
    linked = program.module.elsewhere(name, root)
    if linked is not None and linked != (root, name):
        yield from _bound(program, *linked)
        return
    near, origin = root.module.neighbours, root.module.imports.names.get(name)
    if near is not None and origin is not None:
        found = near.find(origin)
        several = [found] if found is not None else near.exported(origin)
        yield from (at_home(program, one) for one in several)


def at_home(program: Program, found: Definition) -> Definition:
    """A definition of another file, as the program has it where it holds that file itself."""
    path = resolved(found[0].module.path)
    for file in program.module.files:
        if resolved(file.path) == path:
            for binding in file.root.bindings.get(found[1].name, ()):
                if isinstance(binding.statement, (*FUNCTIONS, ast.ClassDef)):
                    return program, binding.statement
    return found
