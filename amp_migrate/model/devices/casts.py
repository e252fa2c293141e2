"""Calls of `.to` that may cast: it takes a device, a dtype and a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.classes.given_classes import given_values
from amp_migrate.model.devices.dtypes import may_be_dtype
from amp_migrate.model.devices.expressions import Devices
from amp_migrate.model.devices.forms import NAMED, Form
from amp_migrate.model.devices.sources import names_device
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.torch_facts.devices import TAKES_DEVICES

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def may_be_cast(program: Program, call: ast.Call) -> bool:
    """Whether nothing but the call itself tells that `.to` gets a device there: no value or name
    of one, and nothing else that takes the same as a device.
    """
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "to":
        return False
    if not call.args or any(one.arg in TAKES_DEVICES for one in call.keywords):
        return False
    given, scope = call.args[0], program.module.scope_of(call)
    if may_be_dtype(program, given, scope):
        return True
    return not (
        Devices(program).of(given, scope).form & (NAMED | Form.INDEX)
        or any(map(_is_called_device, _names(program, given, scope)))
        or _is_taken_as_device(program, given, scope)
    )


def _names(
    program: Program, expr: ast.expr, scope: Scope
) -> Iterator[ast.expr]:
    """What an expression is called, and what it was assigned from."""
    yield expr
    name = dotted_name(expr)
    for one in program.reaching.at(expr, name).bindings if name else ():
        yield from (value for value, _ in given_values(program, one, scope))


def _is_called_device(expr: ast.expr) -> bool:
    """`args.device`, `settings["DEVICE"]`"""
    if isinstance(expr, ast.Subscript) and isinstance(expr.slice, ast.Constant):
        if "dev" in str(expr.slice.value).lower():
            return True
    return names_device(expr)


def _is_taken_as_device(
    program: Program, given: ast.expr, scope: Scope
) -> bool:
    """`device_ids=[self.gpu]`, in the same body or in another one of the object."""
    name, around = dotted_name(given), program.graph.class_around
    own = name is not None and name.partition(".")[0] == scope.self_name
    return any(
        dotted_name(node) == name
        for where in program.module.scopes.values()
        if where is scope or own and around(where) is around(scope)
        for call in where.calls
        for one in call.keywords
        if one.arg in TAKES_DEVICES
        for node in nodes_in(one.value)
        if name is not None and isinstance(node, ast.expr)
    )
