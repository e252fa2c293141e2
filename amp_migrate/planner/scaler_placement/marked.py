"""Optimizers that may be of second order: AMP is off for those that say so of themselves, since
what they differentiate again would carry the scale.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.spelling import Switch
from amp_migrate.torch_facts.optimizers import SECOND_ORDER_MARK, optimizer


def names_of(program: Program, bindings: Iterable[Binding]) -> Iterator[str]:
    """The variables that hold the optimizers, one each, which a scaler is made beside."""
    for binding in bindings:
        statement, value = binding.statement, binding.value
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        name = dotted_name(targets[0]) if len(targets) == 1 else None
        one = value is not None and _is_one(program, value)
        yield name if name is not None and one else ""


def _is_one(program: Program, made: ast.expr) -> bool:
    """Whether one optimizer is made that need not be of second order."""
    value = program.values.of(made, program.module.scope_of(made))
    row = optimizer(value.name)
    if value.kind is Kind.FOREIGN_OPTIMIZER and row is not None:
        called = (
            program.canonical(made.func) if isinstance(made, ast.Call) else None
        )
        return row.marked and called != value.name
    return value.kind is Kind.OPTIMIZER


def without_marked(switch: Switch, names: Iterable[str]) -> Switch:
    """The switch that is off for optimizers of second order."""
    asked = [f'not hasattr({name}, "{SECOND_ORDER_MARK}")' for name in names]
    device = switch.enabled
    if device is not None and _is_loose(device):
        device = f"({device})"
    parts = asked if device is None else [device, *asked]
    return replace(switch, enabled=" and ".join(parts))


def _is_loose(text: str) -> bool:
    """Whether `and` binds tighter than what an expression is made with."""
    body = ast.parse(text, mode="eval").body
    is_or = isinstance(body, ast.BoolOp) and isinstance(body.op, ast.Or)
    return is_or or isinstance(body, (ast.IfExp, ast.Lambda))
