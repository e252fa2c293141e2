"""Functions and methods that a name made at run time may find: `getattr(self, "step_" + mode)`,
`globals()["train_" + kind]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Function, Scope

_NAMESPACES = ("globals", "locals", "vars")


def name_lookup(program: Program, function: Function) -> ast.expr | None:
    """The first expression of the program that may find `function` by a name that it makes."""
    for expr, scope, key in program.remembered(
        name_lookup, lambda: tuple(_lookups(program))
    ):
        if _matches(key, function.name) and _reaches(
            program, expr, scope, function
        ):
            return expr
    return None


def _lookups(program: Program) -> Iterator[tuple[ast.expr, Scope, ast.expr]]:
    for scope in program.module.scopes.values():
        for call in scope.calls:
            name = dotted_name(call.func)
            if name == "getattr" and len(call.args) > 1:
                yield call, scope, call.args[1]
            above = program.module.parents.get(call)
            if name in _NAMESPACES and isinstance(above, ast.Subscript):
                if above.value is call:
                    yield above, scope, above.slice


def _matches(key: ast.expr, name: str) -> bool:
    """Whether a key may be `name`, by the text that it begins with."""
    if isinstance(key, ast.Constant):
        return key.value == name
    if isinstance(key, ast.JoinedStr) and key.values:
        return _matches_start(key.values[0], name)
    if isinstance(key, ast.BinOp) and isinstance(key.op, ast.Add):
        return _matches_start(key.left, name)
    return True


def _matches_start(start: ast.expr, name: str) -> bool:
    if not isinstance(start, ast.Constant):
        return True
    return isinstance(start.value, str) and name.startswith(start.value)


def _reaches(
    program: Program, expr: ast.expr, scope: Scope, function: Function
) -> bool:
    """Whether it is looked up where the function is: on an object of its class, or in its file."""
    inner = program.scope(function)
    if isinstance(expr, ast.Subscript):
        return inner.parent is inner.root and inner.module is scope.module
    owner = inner.owner
    if owner is None or not isinstance(owner.node, ast.ClassDef):
        return False
    assert isinstance(expr, ast.Call)
    holder = expr.args[0]
    if isinstance(holder, ast.Name) and holder.id == scope.self_name:
        cls = program.graph.class_around(scope)
    else:
        cls = program.values.of(holder, scope).cls
    if cls is None:
        return False
    families = (program.graph.lineage(cls), program.graph.lineage(owner.node))
    return owner.node in families[0] or cls in families[1]
