"""Clips by torch's functions in a loop by hand whose framework scales the gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.autocast.frameworks import (
    Setting,
    default_of_option,
    framework_settings,
)
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.torch_facts.clippers import clipper

_DIVIDES = ("unscale_gradients", "unscale_")


def framework_clips(program: Program) -> Iterator[tuple[ast.Call, Setting]]:
    """The clips that see scaled gradients, with what made the framework's object."""
    for setting in framework_settings(program):
        by_hand = "backward" in setting.framework.trains
        if not by_hand or not _is_float16(program, setting):
            continue
        if any(word in program.module.text for word in _DIVIDES):
            continue
        for scope in program.module.scopes.values():
            if _goes_backward(scope, _name_of(program, setting)):
                for call in scope.calls:
                    row = clipper(program.canonical(call.func))
                    if row is not None and row.does == "clip":
                        yield call, setting


def _is_float16(program: Program, setting: Setting) -> bool:
    """Whether the precision is float16 by a literal, or where nobody asks for another."""
    given = setting.given.get(setting.framework.keyword)
    if given is None or setting.framework.rivals & setting.given.keys():
        return False
    value = given.value
    if not isinstance(value, ast.Constant):
        default = default_of_option(program, value)
        if default is None:
            return False
        value = default
    wanted = [on.partition(" if ")[0] for _, on in setting.framework.half]
    return isinstance(value.value, str) and f'"{value.value}"' in wanted


def _name_of(program: Program, setting: Setting) -> str | None:
    """The last word of the variable that holds a framework's object."""
    made = program.module.parents[setting.call]
    target = made.targets[0] if isinstance(made, ast.Assign) else None
    name = dotted_name(target) if target is not None else None
    return name.rpartition(".")[2] if name is not None else None


def _goes_backward(scope: Scope, name: str | None) -> bool:
    """Whether a function gives its loss to the framework's object."""
    return name is not None and any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "backward"
        and bool(call.args)
        and (dotted_name(call.func.value) or "").rpartition(".")[2] == name
        for call in scope.calls
    )
