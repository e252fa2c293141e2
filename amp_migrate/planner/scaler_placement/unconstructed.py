"""Objects that come to be without their constructor, which would make the scaler:
`one = cls.__new__(cls)`, `__setstate__`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, shallow
from amp_migrate.planner.refusal import Refusal


def refuse_unconstructed(
    program: Program, cls: ast.ClassDef, stored: str
) -> None:
    """Refuse a class of which a function makes an object past its constructor, and gives it an
    optimizer of its own, or whose pickled objects keep what they name: nothing would give these
    the scaler.
    """
    lineage, heirs = program.graph.lineage(cls), program.graph.heirs(cls)
    family = dict.fromkeys((*lineage, *heirs))
    _refuse_chosen_state(program, list(family), stored)
    for call, name, scope in _all_made_bare(program):
        if _class(call, scope, program) not in family:
            continue
        if _is_set(f"{name}.{stored}", scope) and not _is_constructed(
            name, scope
        ):
            raise Refusal(
                "unsupported-shape",
                call,
                f"`{name}` is made here without the constructor of `{cls.name}`, and gets "
                "its optimizer by hand: it would lack the scaler that the constructor makes",
            )


def _refuse_chosen_state(
    program: Program, family: list[ast.ClassDef], stored: str
) -> None:
    """`__getstate__` that lists what is kept, and no constructor that runs afterwards."""
    methods = [
        m for one in family for m in one.body if isinstance(m, FUNCTIONS)
    ]
    kept = [m for m in methods if m.name == "__getstate__"]
    if any(
        m.name == "__setstate__"
        and (makes_anew(program, m) or _sets_own(program, m, stored))
        for m in methods
    ):
        return
    for method in kept:
        if not _keeps_all(method):
            raise Refusal(
                "unsupported-shape",
                method,
                "a pickled object keeps what this method names, and no constructor runs when it "
                "is loaded: it would lack the scaler that the constructor makes",
            )


def makes_anew(program: Program, method: Function) -> bool:
    """Whether `__setstate__` runs a constructor first."""
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
        for call in program.scope(method).calls
    )


def _sets_own(program: Program, method: Function, stored: str) -> bool:
    scope = program.scope(method)
    return _is_set(f"{scope.self_name}.{stored}", scope)


def _keeps_all(method: Function) -> bool:
    """`self.__dict__.copy()`, `vars(self)`, `super().__getstate__()`"""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("__dict__", "__getstate__")
        or isinstance(node, ast.Name)
        and node.id == "vars"
        for statement in method.body
        for node in shallow(statement)
    )


def _all_made_bare(program: Program) -> list[tuple[ast.Call, str, Scope]]:
    """Found once for all loops."""
    return program.remembered(
        _all_made_bare,
        lambda: [
            (*made, scope)
            for scope in program.module.scopes.values()
            for made in _made_bare(scope, program)
        ],
    )


def _made_bare(
    scope: Scope, program: Program
) -> Iterator[tuple[ast.Call, str]]:
    """`name = cls.__new__(cls)`, but in `__new__`, after which Python runs the constructor."""
    if getattr(scope.node, "name", None) == "__new__":
        return
    for call in scope.calls:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "__new__":
            statement = program.module.statement_of(call)
            if isinstance(statement, ast.Assign) and statement.value is call:
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        yield call, target.id


def _class(
    call: ast.Call, scope: Scope, program: Program
) -> ast.ClassDef | None:
    """The class of the object: one that has a name, or that whose method this is."""
    kind = call.args[0] if call.args else None
    if kind is None:
        return None
    named = program.graph.class_named(kind, scope)
    return named or program.graph.class_around(scope)


def _is_set(attribute: str, scope: Scope) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and dotted_name(node) == attribute
        for statement in scope.body
        for node in shallow(statement)
    )


def _is_constructed(name: str, scope: Scope) -> bool:
    """`name.__init__()`, `Agent.__init__(name)`"""
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "__init__"
        and name
        in (
            dotted_name(call.func.value),
            dotted_name(call.args[0]) if call.args else None,
        )
        for call in scope.calls
    )
