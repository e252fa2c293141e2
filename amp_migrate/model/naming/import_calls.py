"""Modules that a call imports: `import_module("nets.unet")`, `__import__("losses")`."""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.scopes import Scope

IMPORTERS = ("import_module", "__import__")


def is_import_call(call: ast.Call) -> bool:
    """`importlib.import_module(name)`, `__import__(name)`"""
    return bool(call.args) and is_importer(call.func)


def is_importer(func: ast.expr) -> bool:
    """`importlib.import_module`, `__import__`"""
    return _last(func) in IMPORTERS


def imported_module(call: ast.Call) -> str | None:
    """`nets.unet` of `import_module("nets.unet")`, `import_module(".unet", "nets")`."""
    module = _text(call.args[0]) if is_import_call(call) else None
    if module is None:
        return None
    within = None
    if module.startswith(".") and len(call.args) > 1:
        within = _text(call.args[1])
    if within is not None:
        module = within + module
    parts = module.lstrip(".").split(".")
    if not all(map(str.isidentifier, parts)):
        return None
    return parts[0] if _gives_package(call) else module


def module_held(expr: ast.expr, scope: Scope) -> str | None:
    """The module of such a call, or of a variable that holds nothing else."""
    if isinstance(expr, ast.Call):
        return imported_module(expr)
    home = scope.lookup(expr.id) if isinstance(expr, ast.Name) else None
    if home is None or not isinstance(expr, ast.Name):
        return None
    only = {
        imported_module(one.value)
        if one.how == "assign"
        and one.index is None
        and isinstance(one.value, ast.Call)
        else None
        for one in home.bindings.get(expr.id, ())
    }
    return only.pop() if len(only) == 1 else None


def _last(func: ast.expr) -> str:
    return (dotted_name(func) or "").rpartition(".")[2]


def _gives_package(call: ast.Call) -> bool:
    """`__import__("nets.unet")` is `nets`, unless it is told what is wanted of it."""
    named = {one.arg for one in call.keywords}
    is_told = len(call.args) > 3 or "fromlist" in named
    return _last(call.func) == "__import__" and not is_told


def _text(expr: ast.expr) -> str | None:
    """What a constant says."""
    if not isinstance(expr, ast.Constant):
        return None
    return expr.value if isinstance(expr.value, str) else None
