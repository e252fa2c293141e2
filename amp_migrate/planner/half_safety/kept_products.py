"""Halves that an object keeps in its lists, and that its other methods multiply with float32: they
are float32 there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.half_safety.float_operands import meets_float
from amp_migrate.planner.half_safety.hazards import Hazards


def products_in_float(
    program: Program, trained: Scope, hazards: Hazards
) -> None:
    """Collect the casts of the methods beside a loop that train nothing themselves."""
    for scope in _methods_beside(program, trained):
        for node in nodes_in(scope.node):
            if not isinstance(node, (ast.BinOp, ast.Call)):
                continue
            if hazards.asked.inference.inside(node):
                continue
            where = program.module.scope_of(node)
            for expr in meets_float(program, node, where, hazards):
                if hazards.is_seen_half(expr):
                    hazards.cast(expr)


def _methods_beside(program: Program, trained: Scope) -> Iterator[Scope]:
    cls = program.graph.class_around(trained)
    if cls is None:
        return
    for owner in program.graph.lineage(cls):
        for method in owner.body:
            if not isinstance(method, FUNCTIONS):
                continue
            scope = program.scope(method)
            if scope not in program.training_scopes:
                yield scope
