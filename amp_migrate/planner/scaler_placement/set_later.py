"""What sets an optimizer after the constructor has made one: the object's scaler serves it too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.queries import calls_in
from amp_migrate.model.syntax import Binding, Function


def without_later(program: Program, made: list[Binding]) -> list[Binding]:
    """The bindings without those that a method adds later, as `load` does with
    `self.optimizer = checkpoint["optimizer"]`.
    """
    return [one for one in made if not _is_later(program, one, made)] or made


def _is_later(program: Program, one: Binding, made: list[Binding]) -> bool:
    """Whether the constructor of every class that can train has made an optimizer when the
    statement runs.
    """
    scope = program.module.scope_of(one.statement)
    others = [
        other.statement
        for other in made
        if program.module.scope_of(other.statement) is not scope
    ]
    owner = scope.owner.node if scope.owner is not None else None
    if not isinstance(owner, ast.ClassDef):
        return False
    heirs = program.graph.heirs(owner)
    trained = [
        heir
        for heir in heirs
        if any(_belongs(program, other, heir) for other in others)
    ]
    return (
        bool(trained)
        and not any(_is_run(program, scope.node, heir) for heir in heirs)
        and all(_is_made_before(program, heir, others) for heir in trained)
    )


def _belongs(program: Program, statement: ast.AST, cls: ast.ClassDef) -> bool:
    owner = program.module.scope_of(statement).owner
    return owner is not None and owner.node in program.graph.lineage(cls)


def _is_made_before(
    program: Program, cls: ast.ClassDef, others: list[ast.AST]
) -> bool:
    return any(
        _is_sure(program, other)
        and _is_run(program, program.module.scope_of(other).node, cls)
        for other in others
    )


def _is_run(program: Program, method: ast.AST, cls: ast.ClassDef) -> bool:
    """Whether the constructor of a class runs a method."""
    return any(one is method for one in _run_by_constructor(program, cls))


def _run_by_constructor(
    program: Program, cls: ast.ClassDef
) -> Iterator[Function]:
    """The constructor, those of bases that it calls, and the methods that they call in any case."""
    for base in program.graph.lineage(cls):
        init = program.graph.method(base, "__init__")
        if init is None:
            return
        yield init
        name = program.scope(init).self_name
        for statement in init.body:
            call = statement.value if isinstance(statement, ast.Expr) else None
            called = (
                dotted_name(call.func) if isinstance(call, ast.Call) else None
            )
            head, _, method = (called or "").partition(".")
            found = program.graph.method(cls, method) if head == name else None
            if found is not None:
                yield found
        if not any(_is_init(call) for call in calls_in(init)):
            return


def _is_init(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"


def _is_sure(program: Program, statement: ast.AST) -> bool:
    """Whether a statement runs whenever its method does."""
    scope = program.module.scope_of(statement)
    return any(statement is one for one in scope.body)
