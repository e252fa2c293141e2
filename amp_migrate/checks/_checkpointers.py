"""Checkpointers that are given an optimizer by keyword, and not the scaler that trains beside it:
those of libraries, and classes of the project that save whatever they are given so.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from amp_migrate.checks._states import is_stepped_by_scaler
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import names_in
from amp_migrate.model.values.kinds import optimizer_name
from amp_migrate.torch_facts.checkpointers import ADDERS, CHECKPOINTERS


def checkpointers_without(
    program: Program, scaler_of: Callable[[Program, Scope], str | None]
) -> Iterator[ast.Call]:
    """The calls that make one, where `scaler_of` tells of a scaler in the same scope, or a scaler
    of another object steps the optimizer that they are given.
    """
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if not _is_checkpointer(program, call, scope):
                continue
            given = {one.arg: one.value for one in call.keywords}
            steps = [
                one
                for name, one in given.items()
                if optimizer_name(name or "")
                or program.effects.is_optimizer(one, scope)
            ]
            if not steps or None in given or _is_added(program):
                continue
            scaler = scaler_of(program, scope)
            is_scaled = scaler is not None or any(
                is_stepped_by_scaler(program, scope, dotted_name(one) or "")
                for one in steps
            )
            held = {dotted_name(one) for one in given.values()}
            if is_scaled and not _holds_scaler(
                program, call, scope, scaler, held
            ):
                yield call


def _holds_scaler(
    program: Program,
    call: ast.Call,
    scope: Scope,
    scaler: str | None,
    held: set[str | None],
) -> bool:
    return scaler in held or any(
        "scal" in (one.arg or "").lower()
        or program.events.is_scaler(one.value, scope)
        for one in call.keywords
    )


def _is_checkpointer(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call makes a checkpointer of a library, or an object that saves what it is given
    by keyword.
    """
    if program.canonical(call.func) in CHECKPOINTERS:
        return True
    if not call.keywords:
        return False
    cls = program.graph.class_named(call.func, scope)
    return cls is not None and _saves_each(program, cls)


def _saves_each(program: Program, cls: ast.ClassDef) -> bool:
    """Whether an object keeps its constructor's further keywords, asks each for its state, and is
    given no others later.
    """
    begin = program.graph.method(cls, "__init__")
    rest = begin.args.kwarg.arg if begin and begin.args.kwarg else None
    for owner in program.graph.lineage(cls) if rest is not None else ():
        home = program.module.scopes[owner]
        for name, bindings in home.bindings.items():
            values = [one.value for one in bindings if one.value is not None]
            if (
                name.startswith("self.")
                and any(rest in names_in(value) for value in values)
                and not home.stored.get(name)
                and _asks_each(program, cls, name)
            ):
                return True
    return False


def _asks_each(program: Program, cls: ast.ClassDef, kept: str) -> bool:
    """Whether a method goes through what is kept and asks each for its state."""
    family = program.graph.lineage(cls)
    for scope in program.module.scopes.values():
        if program.graph.class_around(scope) not in family:
            continue
        for call in scope.calls:
            func = call.func
            if (
                isinstance(func, ast.Attribute)
                and func.attr == "state_dict"
                and isinstance(func.value, ast.Name)
                and any(
                    one.how == "for"
                    and one.value is not None
                    and kept.partition(".")[2] in ast.unparse(one.value)
                    for one in scope.bindings.get(func.value.id, ())
                )
            ):
                return True
    return False


def _is_added(program: Program) -> bool:
    """Whether anything is handed to a checkpointer later."""
    return bool(ADDERS & program.module.identifiers)
