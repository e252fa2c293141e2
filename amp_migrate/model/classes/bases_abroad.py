"""Classes with their bases in other files, and the methods that they have of these."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.syntax.module import Function, Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.values.value_kinds import Values

Class: TypeAlias = "tuple[Program, ast.ClassDef]"
Method: TypeAlias = "tuple[Program, Function]"
_MOST = 8


def with_bases(home: Program, cls: ast.ClassDef) -> Iterator[Class]:
    """A class, and the bases of it and of its own file's bases that stand in other files."""
    wanted: list[Class] = [(home, cls)]
    for where, one in wanted:  # grows while it is read
        yield where, one
        for base in _abroad(where.values, one):
            if base not in wanted and len(wanted) < _MOST:
                wanted.append(base)


def _abroad(values: Values, cls: ast.ClassDef) -> Iterator[Class]:
    for owner in values.graph.lineage(cls):
        scope = values.module.scopes[owner].parent or values.module.root
        for base in owner.bases:
            found = values.abroad(base, scope)
            if found is not None and isinstance(found[1], ast.ClassDef):
                yield found[0], found[1]


def method_of(
    home: Program, cls: ast.ClassDef, name: str
) -> tuple[Program, Function] | None:
    """A method of a class, with the program of the file that defines it."""
    for where, one in with_bases(home, cls):
        method = where.graph.method(one, name)
        if method is not None:
            return where, method
    return None


def constructor(
    home: Program, cls: ast.ClassDef
) -> tuple[Program, Function] | None:
    """What makes an object of a class."""
    return method_of(home, cls, "__init__")


def inherited_method(
    values: Values, cls: ast.ClassDef, name: str
) -> tuple[Program, Function] | None:
    """A method that a class of a program has of a base in another file."""
    found = (method_of(*base, name) for base in _abroad(values, cls))
    return next((one for one in found if one is not None), None)


def run_by(
    home: Program, cls: ast.ClassDef, method: Method
) -> tuple[Method, ...]:
    """What a method of a base in another file calls of its own object, as a class has it: the base
    knows none of its heirs.
    """

    def found() -> Iterator[Method]:
        names = list(_called_of_self(*method))
        for name in names:  # grows while it is read
            own = method_of(home, cls, name)
            if own is not None:
                yield own
                called = dict.fromkeys(_called_of_self(*own))
                names.extend(one for one in called if one not in names)

    if method[0] is home:
        return ()
    return home.remembered((run_by, cls, method[1]), lambda: tuple(found()))


def _called_of_self(program: Program, method: Function) -> Iterator[str]:
    scope = program.module.scopes[method]
    for call in scope.calls:
        func = call.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            if func.value.id == scope.self_name:
                yield func.attr


def called_of_base(
    program: Program, func: ast.Attribute, scope: Scope
) -> tuple[Program, Function] | None:
    """`self.forward` and `super().forward` of a class that has them of a base in another file."""
    graph, above = program.graph, _is_super(func.value)
    cls = asked_class(program, func.value, scope)
    if cls is None:
        return None
    own = graph.lineage(cls)[1:] if above else graph.lineage(cls)
    if any(graph.method(one, func.attr) is not None for one in own):
        return None
    return inherited_method(program.values, cls, func.attr)


def asked_class(
    program: Program, holder: ast.expr, scope: Scope
) -> ast.ClassDef | None:
    """The class of `self`, of `super()` and of what else this program makes."""
    if _is_super(holder):
        return program.graph.class_around(scope)
    return program.values.of(holder, scope).cls


def _is_super(expr: ast.expr) -> bool:
    return (
        isinstance(expr, ast.Call)
        and isinstance(expr.func, ast.Name)
        and expr.func.id == "super"
    )
