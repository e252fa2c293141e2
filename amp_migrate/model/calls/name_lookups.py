"""Functions and methods that a name made at run time may find: `getattr(self, "step_" + mode)`,
`globals()["train_" + kind]`, `getattr(methods, name)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePath

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope

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


def lookup_from(other: Program, function: Function, path: str) -> bool:
    """Whether a file that is no part of the program may find a function of the file at `path`."""
    home = PurePath(path)
    stem = home.parent.name if home.stem == "__init__" else home.stem
    imports = other.module.imports
    for expr, _, key in _lookups(other):
        holder = _holder(expr)
        if not _matches(key, function.name):
            continue
        if holder is None:
            named = imports.names.get(function.name, "")
            if named.split(".")[-2:-1] == [stem] or imports.stars:
                return True
        elif (other.canonical(holder) or "").rpartition(".")[2] == stem:
            return True
    return False


def _lookups(program: Program) -> Iterator[tuple[ast.expr, Scope, ast.expr]]:
    """`getattr(x, key)`, `globals()[key]`, `vars(x)[key]`, `x.__dict__[key]`."""
    for scope in program.module.scopes.values():
        for call in scope.calls:
            name = dotted_name(call.func)
            if name == "getattr" and len(call.args) > 1:
                yield call, scope, call.args[1]
            above = program.module.parents.get(call)
            if name in _NAMESPACES and isinstance(above, ast.Subscript):
                if above.value is call:
                    yield above, scope, above.slice
    for node in program.module.parents:
        names = node.value if isinstance(node, ast.Subscript) else None
        if isinstance(names, ast.Attribute) and names.attr == "__dict__":
            assert isinstance(node, ast.Subscript)
            yield node, program.module.scope_of(node), node.slice


def _holder(expr: ast.expr) -> ast.expr | None:
    """What is searched; None for the names of the place itself."""
    if isinstance(expr, ast.Subscript):
        names = expr.value
        if isinstance(names, ast.Attribute):
            return names.value
        return (
            names.args[0]
            if isinstance(names, ast.Call) and names.args
            else None
        )
    assert isinstance(expr, ast.Call)
    return expr.args[0]


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
    inner, holder = program.scope(function), _holder(expr)
    if holder is None:
        return inner.parent is inner.root and inner.module is scope.module
    owner = inner.owner
    if owner is None or not isinstance(owner.node, ast.ClassDef):
        return inner.parent is inner.root and _is_file(
            program, holder, scope, function
        )
    if isinstance(holder, ast.Name) and holder.id == scope.self_name:
        cls = program.graph.class_around(scope)
    else:
        cls = program.values.of(holder, scope).cls
    if cls is None:
        return False
    families = (program.graph.lineage(cls), program.graph.lineage(owner.node))
    return owner.node in families[0] or cls in families[1]


def _is_file(
    program: Program, holder: ast.expr, scope: Scope, function: Function
) -> bool:
    """Whether an expression is the module of a function: `methods`, `sys.modules[__name__]`."""
    home = program.scope(function).root
    if isinstance(holder, ast.Subscript):
        own = dotted_name(holder.slice) == "__name__"
        return own and home is scope.module.root
    dotted = dotted_name(holder)
    found = (
        program.module.elsewhere(f"{dotted}.{function.name}", scope)
        if dotted is not None
        else None
    )
    return found is not None and found[0] is home
