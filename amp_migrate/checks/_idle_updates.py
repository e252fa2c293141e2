"""Updates of scalers that neither scale nor step anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.scalers import is_disabled
from amp_migrate.model.syntax.module import Scope

_IDLE = frozenset(
    "update get_scale state_dict load_state_dict is_enabled".split()
)


def idle_updates(program: Program) -> Iterator[ast.Call]:
    """`scaler.update()` where nothing else is ever asked of the scaler that could leave it
    something to do.
    """
    if ".update()" not in program.module.text:
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            func = call.func
            if (
                program.events.what(call, scope) is EventKind.UPDATE
                and isinstance(func, ast.Attribute)
                and not call.args
                and _is_idle(program, func.value, scope)
            ):
                yield call


def _is_idle(program: Program, scaler: ast.expr, scope: Scope) -> bool:
    made = program.values.of(scaler, scope).origin
    if not isinstance(made, ast.Call) or is_disabled(made):
        return False
    parent = program.module.parents.get(made)
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return False
    home = program.module.scope_of(made)
    uses = list(_uses(program, parent.targets[0], home))
    above = [program.module.parents[one] for one in uses]
    return bool(uses) and all(
        isinstance(one, ast.Attribute) and one.attr in _IDLE for one in above
    )


def _uses(
    program: Program, target: ast.expr, scope: Scope
) -> Iterator[ast.expr]:
    """The places that read a variable, or an attribute of that name of any object."""
    home = scope.lookup(dotted_name(target) or "")
    for node in program.module.parents:
        if isinstance(target, ast.Attribute):
            if isinstance(node, ast.Attribute) and node.attr == target.attr:
                if isinstance(node.ctx, ast.Load):
                    yield node
        elif (
            isinstance(node, ast.Name)
            and isinstance(target, ast.Name)
            and node.id == target.id
            and isinstance(node.ctx, ast.Load)
            and program.module.scope_of(node).lookup(node.id) is home
        ):
            yield node
