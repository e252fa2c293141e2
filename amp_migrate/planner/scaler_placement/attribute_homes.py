"""Where a scaler is made that is an attribute of the object whose optimizer it serves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Function, Scope
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.planner.scaler_placement.construction import Anchors
from amp_migrate.planner.scaler_placement.homes import Home


def attribute_homes(
    program: Program,
    anchors: Anchors,
    cls: ast.ClassDef,
    made: list[Binding],
    scope: Scope,
) -> Iterator[tuple[Home, list[Binding], list[ast.stmt]]]:
    """Each method that makes it, the bindings of the optimizers there, and the statements beside
    which the scaler is made.
    """
    lasting = anchors.lasting(made)
    shared = _call_in_constructor(program, cls, lasting)
    if shared is not None:
        yield _home(shared[0]), lasting, [shared[1]]
        return
    by_method: dict[int, list[Binding]] = {}
    for one in lasting:
        method = program.module.scope_of(one.statement)
        by_method.setdefault(id(method), []).append(one)
    for bindings in by_method.values():
        where = program.module.scope_of(bindings[0].statement)
        yield _home(where), bindings, anchors.of(bindings, where, scope, [])


def _home(method: Scope) -> Home:
    """The object that a method belongs to."""
    return Home(method, method.self_name or "self")


def _call_in_constructor(
    program: Program, cls: ast.ClassDef, made: list[Binding]
) -> tuple[Scope, ast.stmt] | None:
    """`self.set_optimizer()` in the constructor that the heirs of a class share, where some heir
    makes another optimizer in that method: a scaler made in the method itself would be missing
    there.
    """
    name = _method_name(program, made)
    attributes = {f"self.{_attribute(one)}" for one in made}
    for base in program.graph.lineage(cls):
        call = _call(program, base, name) if name is not None else None
        if call is not None:
            heirs = program.graph.heirs(base)
            lacks = any(
                _lacks(program, heir, name, attributes) for heir in heirs
            )
            return call if lacks else None
    return None


def _method_name(program: Program, made: list[Binding]) -> str | None:
    """The name of the methods in which all bindings stand, where they have one."""
    names = {
        getattr(program.module.scope_of(one.statement).node, "name", None)
        for one in made
    }
    name = names.pop() if len(names) == 1 else None
    return name if name != "__init__" else None


def _attribute(binding: Binding) -> str:
    """The last part of what a statement sets."""
    statement = binding.statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return (dotted_name(target) or "" if target else "").rpartition(".")[2]


def _call(
    program: Program, cls: ast.ClassDef, name: str | None
) -> tuple[Scope, ast.stmt] | None:
    """Where the constructor of `cls` calls the method, whatever else it does."""
    init = _method(cls, "__init__")
    if init is None:
        return None
    inner = program.scope(init)
    for statement in init.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if (
            isinstance(call, ast.Call)
            and dotted_name(call.func) == f"{inner.self_name}.{name}"
        ):
            return inner, statement
    return None


def _lacks(
    program: Program, cls: ast.ClassDef, name: str | None, attributes: set[str]
) -> bool:
    """Whether a class has a method of that name that neither makes the optimizer nor runs that of
    its base.
    """
    method = _method(cls, name)
    if method is None:
        return False
    bindings = program.module.scopes[cls].bindings
    sets = any(
        program.module.scope_of(one.statement).node is method
        for attribute in attributes
        for one in bindings.get(attribute, ())
    )
    return not sets and not any(
        isinstance(call.func, ast.Attribute) and call.func.attr == name
        for call in calls_in(method)
    )


def _method(cls: ast.ClassDef, name: str | None) -> Function | None:
    return next(
        (
            one
            for one in cls.body
            if isinstance(one, FUNCTIONS) and one.name == name
        ),
        None,
    )
