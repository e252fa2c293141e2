"""Modules that are imported by a name which only the run knows, and what is made of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.targets import makers
from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.naming.import_calls import (
    IMPORTERS,
    is_import_call,
    is_importer,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def imports_late(program: Program) -> bool:
    """Whether a program names a function that imports; what does not is spared the flow of all
    functions that call methods.
    """
    return program.remembered(
        imports_late,
        lambda: any(one in program.module.text for one in IMPORTERS),
    )


def is_computed_module(program: Program, expr: ast.expr) -> bool:
    """`importlib.import_module(args.model)`, or a variable that holds it."""
    if isinstance(expr, ast.Call):
        return is_import_call(expr)
    dotted = dotted_name(expr)
    bindings = (
        program.reaching.at(expr, dotted).bindings if dotted is not None else ()
    )
    values = [one.value for one in bindings if one.how == "assign"]
    return any(
        isinstance(one, ast.Call) and is_computed_module(program, one)
        for one in values
    )


def maker_of(value: ast.expr) -> ast.expr:
    """`get_method` of `get_method(cfg.method)(cfg).cuda()`."""
    while isinstance(value, ast.Call) or (
        isinstance(value, ast.Attribute) and isinstance(value.value, ast.Call)
    ):
        value = value.func if isinstance(value, ast.Call) else value.value
    return value


def is_made_late(program: Program, part: ast.expr, scope: Scope) -> bool:
    """`self.net` of `self.net = import_module(args.model).make_model(args)`, also where callers
    make it.
    """
    if not imports_late(program):
        return False
    parts = held(program, part, scope)
    makers_of = (maker_of(value) for home, value, _ in parts if home is program)
    return any(
        isinstance(one, ast.Attribute)
        and is_computed_module(program, one.value)
        for one in makers_of
    ) or any(
        isinstance(one, ast.expr) and is_importer(one)
        for one in makers(program, part, scope)
    )
