"""Which device autocast is switched off for, where a statement is computed in float32."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.queries import surely_evaluated
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.islands import is_lowered
from amp_migrate.planner.refusal import Refusal, place_of


def devices_apart(
    hazards: Hazards, node: ast.AST, named: str | None
) -> dict[ast.stmt, str]:
    """The statements that are computed with autocast off, each with the type of its device as
    text: `named`, or, where the program runs on whatever there is, that of a tensor in it. Raises
    Refusal where no name for one is in sight.
    """
    found: dict[ast.stmt, str] = {}
    for statement, rule in hazards.islands.items():
        device = named or _of_tensor(hazards, statement)
        if device is None:
            what = (
                "loses too much in half precision"
                if rule == "loses-precision"
                else "must be float32"
            )
            place = place_of(hazards.program, statement)
            raise Refusal(
                rule,
                node,
                f"{place} {what}: compute it with autocast switched off",
            )
        found[statement] = device
    return found


def _of_tensor(hazards: Hazards, statement: ast.stmt) -> str | None:
    """`x.device.type` of a tensor that the statement computes with, whatever it comes to."""
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.expr):
        return None
    nodes = [*surely_evaluated(value)]
    tensors = [*_cast(hazards, nodes), *_multiplied(hazards, nodes)]
    names = (dotted_name(one) for one in tensors)
    name = next((one for one in names if one is not None), None)
    return f"{name}.device.type" if name is not None else None


def _cast(hazards: Hazards, nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """What the statement reads as float from now on."""
    cast = {edit.target for edit in hazards.casts}
    span = hazards.program.module.span
    for one in nodes:
        if isinstance(one, (ast.Name, ast.Attribute)) and span(one) in cast:
            yield one


def _multiplied(hazards: Hazards, nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """The operands of products of matrices, which are tensors."""
    for one in nodes:
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.MatMult):
            yield from (one.left, one.right)
        elif isinstance(one, ast.Call):
            scope = hazards.program.module.scope_of(one)
            found = spelled(hazards.asked.inference, one, scope)
            if found is not None and is_lowered(hazards.asked, one, scope):
                yield from operands(found, one)
