"""Outputs that leave their region in half precision for what may mind: they leave it as float,
where they are proved to be tensors. With AMP off that is the tensor itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.uses import viewed
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.planner.half_safety.exposed_values import Consumers
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.rewrite.proof.demands import demands_of
from amp_migrate.rewrite.proof.receivers import receivers_of
from amp_migrate.torch_facts.methods import VIEWS

_DEEP = 12


def outputs_in_float(
    program: Program,
    scope: Scope,
    nodes: Iterable[tuple[ast.AST, Scope]],
    hazards: Hazards,
) -> None:
    """Collect the casts of what a scope does with outputs outside of autocast."""
    for node, where in nodes:
        if where is not scope or not isinstance(
            node, (ast.Name, ast.Attribute)
        ):
            continue
        if isinstance(node.ctx, ast.Load) and dotted_name(node) is not None:
            _judge(program, node, scope, hazards)


def _judge(
    program: Program, read: ast.expr, scope: Scope, hazards: Hazards
) -> None:
    fact = hazards.asked.fact(read, scope)
    perhaps = fact._replace(dtypes=fact.dtypes & ~DType.OTHER)
    if not perhaps.floats_alone:
        return
    if not Consumers(hazards.asked).expose(read, scope):
        return
    whole = viewed(program.module, read, VIEWS)
    is_tensor = demands_of(program).demanded(whole, scope)
    if not is_tensor and fact.floats_alone:
        is_tensor = receivers_of(program).made(whole, scope, _DEEP)
    if is_tensor:
        hazards.cast(whole, "half-outside-autocast")
