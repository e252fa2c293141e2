"""Outside of autocast: operands that must have the dtype of float32 weights, or that half would
overflow.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.torch_facts.ops import Trait

_OVERFLOWS = Trait.REDUCES | Trait.SQUARES


def meets_float(
    program: Program, node: ast.AST, scope: Scope, hazards: Hazards
) -> list[ast.expr]:
    """Operands that must have the dtype of float32 weights, or that half would overflow."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return [node.left, node.right]
    if not isinstance(node, ast.Call):
        return []
    if program.values.is_model(node.func, scope):
        return [*node.args, *(one.value for one in node.keywords)]
    found = spelled(hazards.asked.inference, node, scope)
    if found is None or any(one.arg == "dtype" for one in node.keywords):
        return []
    if found.policy in ("lower", "promote"):
        return operands(found, node)
    overflows = found.policy == "fp32" and found.op.traits & _OVERFLOWS
    given = operands(found, node) if overflows and hazards.float16 else []
    return [root for one in given for root in _roots(one, scope, hazards)]


def _roots(expr: ast.expr, scope: Scope, hazards: Hazards) -> list[ast.expr]:
    """What must be float32 so that all of an expression is: `a` and `b` of `(a - b) ** 2`, whose
    square may be too large already, and `a` of `a.exp()`.
    """
    if isinstance(expr, ast.Call):
        found = spelled(hazards.asked.inference, expr, scope)
        is_wide = found is not None and found.policy == "fp32"
        given = operands(found, expr) if found is not None and is_wide else []
        inner = [root for one in given for root in _roots(one, scope, hazards)]
        return inner or [expr]
    if isinstance(expr, ast.BinOp) and not isinstance(expr.op, ast.MatMult):
        sides = (
            [expr.left]
            if isinstance(expr.op, ast.Pow)
            else [expr.left, expr.right]
        )
        return [root for side in sides for root in _roots(side, scope, hazards)]
    if isinstance(expr, ast.UnaryOp):
        return _roots(expr.operand, scope, hazards)
    return [expr]
