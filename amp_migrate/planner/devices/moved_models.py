"""Models that the body that trains them has moved itself, or hands to what may move them."""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope


def moved_here(program: Program, model: ast.expr, scope: Scope) -> bool:
    """`self.model` after `self.model = to_device(self.model)` in the same body: what moves the
    object that it is a part of has nothing to do with that.
    """
    dotted = dotted_name(model)
    reach = program.reaching.own(model, dotted) if dotted is not None else None
    if reach is None or not (reach.bindings and reach.certain):
        return False
    return all(
        isinstance(one.value, ast.Call)
        and one.index is None
        and one.statement in program.module.parents
        and program.module.scope_of(one.statement) is scope
        and dotted in _taken(one.value)
        for one in reach.bindings
    )


def handed_away_later(
    program: Program, model: ast.expr, scope: Scope, place: ast.stmt
) -> bool:
    """Whether a body goes on, behind a place, with what code out of sight makes of a model:
    `self.net = put(self.net)`.
    """
    dotted = dotted_name(model) or ""
    own = dotted.startswith(f"{scope.self_name}.") and scope.owner is not None
    home = scope.owner if own else scope
    key = f"self.{dotted.partition('.')[2]}" if own else dotted
    return any(
        isinstance(one.value, ast.Call)
        and program.module.scope_of(one.value) is scope
        and one.value.lineno > place.lineno
        and dotted in _taken(one.value)
        and not f"{program.canonical(one.value.func)}".startswith("torch.")
        and program.values.callee(one.value, scope) is None
        for one in (home.bindings.get(key, ()) if home is not None else ())
    )


def _taken(call: ast.Call) -> set[str | None]:
    """What a call is given, and the object whose method it is."""
    given = [*call.args, *(one.value for one in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        given.append(call.func.value)
    return {dotted_name(one) for one in given}
