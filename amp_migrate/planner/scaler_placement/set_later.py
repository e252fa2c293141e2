"""What sets an optimizer after the constructor has made one: the object's scaler serves it too."""

from __future__ import annotations

import ast

from amp_migrate.model.classes.constructors import is_run_by_constructor
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.planner.scaler_placement.unconstructed import makes_anew


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
    if not isinstance(owner, ast.ClassDef) or _is_loaded(program, scope):
        return False
    heirs = program.graph.heirs(owner)
    trained = [
        heir
        for heir in heirs
        if any(_belongs(program, other, heir) for other in others)
    ]
    return (
        bool(trained)
        and not any(
            is_run_by_constructor(program, scope.node, heir) for heir in heirs
        )
        and all(_is_made_before(program, heir, others) for heir in trained)
    )


def _is_loaded(program: Program, scope: Scope) -> bool:
    """Whether pickle runs a method on an object whose constructor has not run."""
    node = scope.node
    return (
        isinstance(node, FUNCTIONS)
        and node.name == "__setstate__"
        and not makes_anew(program, node)
    )


def _belongs(program: Program, statement: ast.AST, cls: ast.ClassDef) -> bool:
    owner = program.module.scope_of(statement).owner
    return owner is not None and owner.node in program.graph.lineage(cls)


def _is_made_before(
    program: Program, cls: ast.ClassDef, others: list[ast.AST]
) -> bool:
    return any(
        _is_sure(program, other)
        and is_run_by_constructor(
            program, program.module.scope_of(other).node, cls
        )
        for other in others
    )


def _is_sure(program: Program, statement: ast.AST) -> bool:
    """Whether a statement runs whenever its method does."""
    scope = program.module.scope_of(statement)
    return any(statement is one for one in scope.body)
