"""Where devices come from that no binding in reach tells: classes of other files, attributes set
anywhere, the ranks of spawned processes.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.devices.forms import DeviceValue, Form
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding, Scope, returned

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_SPAWN = "torch.multiprocessing.spawn"


def of_class_abroad(
    program: Program, dotted: str, scope: Scope
) -> tuple[Program, tuple[Binding, ...]] | None:
    """`Config.device`, or `cfg.device` of an instance, of a class of another file."""
    expr = ast.parse(dotted, mode="eval").body
    if not isinstance(expr, ast.Attribute):
        return None
    abroad = program.values.abroad(expr.value, scope)
    foreign = program.values.of(expr.value, scope).foreign or abroad
    if foreign is None or not isinstance(foreign[1], ast.ClassDef):
        return None
    held = foreign[0].module.scopes[foreign[1]].bindings
    found = (*held.get(expr.attr, ()), *held.get(f"self.{expr.attr}", ()))
    return (foreign[0], found) if found else None


def returned_parts(
    program: Program, binding: Binding, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    """`device, ids = prepare(n)`: what functions in sight return there, each with its scope;
    nothing where one of them returns something else.
    """
    value, index = binding.value, binding.index
    if binding.how != "assign" or not isinstance(value, ast.Call):
        return []
    whole = [
        (one, program.scope(function))
        for function in program.values.callees(value, scope)
        for one in returned(function)
    ]
    parts = [
        (one.elts[index], inner)
        for one, inner in whole
        if isinstance(one, ast.Tuple)
        and index is not None
        and index < len(one.elts)
    ]
    return parts if len(parts) == len(whole) else []


def given_back(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[Program, ast.expr, Scope]]:
    """What the functions in sight that a call runs return, those of other files, too."""
    functions = [(program, one) for one in program.values.callees(call, scope)]
    abroad = None if functions else program.values.abroad(call.func, scope)
    if abroad is not None and not isinstance(abroad[1], ast.ClassDef):
        functions = [(abroad[0], abroad[1])]
    return [
        (home, one, home.scope(function))
        for home, function in functions
        for one in returned(function)
    ]


def spawned(program: Program) -> frozenset[ast.AST]:
    """Functions that `torch.multiprocessing.spawn` runs, each with its rank."""
    calls = (
        (call, scope)
        for scope in program.module.scopes.values()
        for call in scope.calls
        if call.args and program.canonical(call.func) == _SPAWN
    )
    found = (program.graph.function_at(c.args[0], s) for c, s in calls)
    return frozenset(function for function in found if function is not None)


_KNOWN = Form.DEVICE | Form.STRING | Form.INDEX


def may_be_of_tensor(device: ast.expr, value: DeviceValue) -> bool:
    """`x.device`, of which nothing else is known."""
    if not isinstance(device, ast.Attribute):
        return False
    if device.attr != "device":
        return False
    if isinstance(device.value, ast.Name):
        return not value.form & _KNOWN
    return is_tensor(device.value)


def is_tensor(expr: ast.expr) -> bool:
    """`next(model.parameters())`, whose `.device` is one."""
    return isinstance(expr, ast.Call) and dotted_name(expr.func) == "next"


def names_device(expr: ast.expr | None) -> bool:
    """A name of which nothing is in sight: all that tells a device from a dtype or a tensor."""
    while isinstance(expr, ast.Subscript):
        expr = expr.value
    last = (
        expr.attr
        if isinstance(expr, ast.Attribute)
        else getattr(expr, "id", "")
    )
    return "dev" in last.lower()
