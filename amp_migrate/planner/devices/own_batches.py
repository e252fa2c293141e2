"""The batches that an object moves: their device has a name where that of its model has none."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from amp_migrate.model.devices.forms import may_be_cpu
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.devices.moves import Move


def own_batches(
    program: Program, moves: Sequence[Move], scope: Scope
) -> list[Move]:
    """The moves, under no condition, in methods of the object that `scope` is a method of, where
    all that may be to the CPU are to one attribute: what its model computes with lies where the
    model does.
    """
    cls = program.graph.class_around(scope)
    own = [m for m in moves if program.graph.class_around(m.scope) is cls]
    own = [m for m in own if m.of_model or may_be_cpu(m.value)]
    to = {dotted_name(m.device) if m.device is not None else None for m in own}
    name = next(iter(to), None)
    is_one = len(to) == 1 and (name or "").startswith(f"{scope.self_name}.")
    plain = not any(m.of_model or m.tests or m.optional for m in own)
    is_kept = isinstance(scope.node, ast.FunctionDef) and cls is not None
    return own if is_kept and is_one and plain else []
