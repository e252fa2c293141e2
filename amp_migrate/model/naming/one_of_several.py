"""Names that stand for any of several definitions: several import statements bind them, as in the
branches of an `if`, or they are looked up in a module by a name that only the run knows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.classes.looked_up import module_searched, name_searched
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Definition
    from amp_migrate.model.program import Program
    from amp_migrate.model.values.kinds import Value


def is_one_of_several(expr: ast.expr, scope: Scope) -> bool:
    """Whether more than one import statement of the file binds the head of a name."""
    head = (dotted_name(expr) or "").partition(".")[0]
    return bool(scope.module.imports.others.get(head))


def is_looked_up(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """`getattr(losses, name)`, where `losses` is a module of the project."""
    return bool(_looked_up(program, expr, scope))


def _looked_up(
    program: Program, expr: ast.expr, scope: Scope
) -> list[Definition]:
    """What a name that only the run knows may find in a module."""
    if not isinstance(expr, (ast.Call, ast.Subscript)):
        return []
    searched = module_searched(expr)
    if searched is None:
        return []
    found = program.reaching.imported.exported(searched, scope)
    pattern = name_searched(expr) if isinstance(expr, ast.Call) else None
    return [
        one
        for one in found
        if pattern is None or pattern.fullmatch(one[1].name)
    ]


def all_abroad(
    program: Program, expr: ast.expr, scope: Scope
) -> list[Definition]:
    """The classes and functions in other files that a name may stand for, or a look-up in a module,
    the likeliest first.
    """
    if isinstance(expr, (ast.Call, ast.Subscript)):
        return _looked_up(program, expr, scope)
    first = program.values.abroad(expr, scope)
    found = [] if first is None else [first]
    if is_one_of_several(expr, scope):
        found += program.reaching.imported.each(expr, scope)
    return list(dict.fromkeys(found))


def all_here(
    program: Program, expr: ast.expr, scope: Scope
) -> list[Function | ast.ClassDef]:
    """The same in the files of the program, found once."""
    return program.remembered(
        (all_here, expr, scope), lambda: _all_here(program, expr, scope)
    )


def _all_here(
    program: Program, expr: ast.expr, scope: Scope
) -> list[Function | ast.ClassDef]:
    graph, module = program.graph, program.module
    named = (graph.class_named(expr, scope), graph.function_at(expr, scope))
    found = [one for one in named if one is not None][:1]
    dotted = dotted_name(expr)
    if dotted is not None and is_one_of_several(expr, scope):
        found += [
            one.statement
            for home, name in module.everywhere(dotted, scope, expr)
            for one in home.bindings[name]
            if isinstance(one.statement, (*FUNCTIONS, ast.ClassDef))
        ]
    return list(dict.fromkeys(found))


def classes_brought(
    program: Program, value: Value
) -> Iterator[tuple[Program, ast.ClassDef]]:
    """The classes that an object may be of which several import statements bring."""
    made = value.origin
    if not isinstance(made, ast.Call) or made not in program.module.parents:
        return
    scope = program.module.scope_of(made)
    own = [(program, one) for one in all_here(program, made.func, scope)]
    for home, one in (*own, *all_abroad(program, made.func, scope)):
        if isinstance(one, ast.ClassDef):
            yield home, one
