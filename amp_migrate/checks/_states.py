"""Where the states of optimizers are kept, and whose scaler belongs to them."""

from __future__ import annotations

import ast

from amp_migrate.model.arguments import argument
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Scope


def holds_optimizer(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether an expression is an optimizer, or one after the other of a list of optimizers."""
    if program.effects.is_optimizer(expr, scope):
        return True
    held = scope.bindings.get(expr.id, []) if isinstance(expr, ast.Name) else []
    return len(held) == 1 and any(
        isinstance(one.statement, ast.For)
        and isinstance(one.statement.target, ast.Name)
        and program.effects.is_optimizer(one.statement.iter, scope)
        for one in held
    )


def is_own(program: Program, scope: Scope, scaler: str) -> bool:
    """Whether the class around binds the scaler itself, and not only an heir of it."""
    cls = program.graph.class_around(scope)
    if cls is None or "." not in scaler:
        return True
    bindings = program.module.scopes[cls].bindings
    return f"self.{scaler.partition('.')[2]}" in bindings


def is_object_of(program: Program, scope: Scope, cls: ast.ClassDef) -> bool:
    """Whether a method is one of a class, or of an heir of it: the object is the same."""
    own = program.graph.class_around(scope)
    return own is not None and (own is cls or cls in program.graph.lineage(own))


def entry_of(parent: ast.AST, call: ast.Call) -> ast.expr | None:
    """Of `held["optimizer"] = state` and `held["optimizers"].append(state)`, the entry."""
    if isinstance(parent, ast.Assign):
        return parent.targets[0]
    if (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Attribute)
        and parent.func.attr == "append"
        and parent.args == [call]
    ):
        return parent.func.value
    return None


def is_written(program: Program, entry: ast.expr) -> bool:
    """Whether an entry belongs to a dict that its function saves."""
    if not isinstance(entry, ast.Subscript):
        return False
    holder = dotted_name(entry.value)
    return holder is not None and any(
        program.canonical(call.func) == "torch.save"
        and call.args
        and dotted_name(call.args[0]) == holder
        for call in program.module.scope_of(entry).calls
    )


def is_lent(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether a parameter stands for a scaler at another call: one helper for every state."""
    while isinstance(expr, ast.Subscript):
        expr = expr.value
    function = scope.node
    if not isinstance(expr, ast.Name) or not isinstance(function, FUNCTIONS):
        return False
    for site in program.graph.sites(function):
        given = argument(site.call, scope, expr.id, site.bound)
        if given is not None and program.events.is_scaler(given, site.scope):
            return True
    return False
