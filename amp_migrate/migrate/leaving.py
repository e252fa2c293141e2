"""Values that leave a region in half precision and meet float32 weights or buffers outside: they leave as float."""

from __future__ import annotations

import ast

from amp_migrate.config import Settings
from amp_migrate.migrate.flow import header
from amp_migrate.migrate.hazards import Hazards
from amp_migrate.migrate.region import Regions
from amp_migrate.model.effects import inner_statements
from amp_migrate.model.kinds import Kind
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Scope, shallow

_MATMULS = {"matmul", "mm", "bmm", "linear", "addmm", "einsum", "conv1d", "conv2d", "conv3d", "dot", "mv", "baddbmm"}


def casts_after(
    program: Program, scope: Scope, regions: Regions, late: frozenset[ast.stmt], hazards: Hazards, settings: Settings
) -> None:
    """Collect the casts of one scope: outputs given to another model outside autocast, index writes, NumPy of bfloat16."""
    inside = {id(s) for region in regions.regions for top in region.statements() for s in (top, *inner_statements(top))}
    first = min((r.first.lineno for r in regions.regions), default=0)
    produced = _outputs(program, scope, inside)
    for statement in _statements(scope):
        if id(statement) in inside or statement in late or statement.lineno < first:
            continue
        for root in header(statement):
            for node in shallow(root):
                _node_casts(program, scope, node, produced, hazards, settings)
        if isinstance(statement, ast.Assign):
            hazards.written(statement, scope, frozenset(produced))


def _outputs(program: Program, scope: Scope, inside: set[int]) -> set[str]:
    """Names bound by statements under autocast that run a model: the only ones that may be half."""
    found: set[str] = set()
    for statement in _statements(scope):
        if id(statement) in inside and isinstance(statement, ast.Assign):
            if any(isinstance(n, ast.Call) and program.effects.is_forward(n, scope) for n in shallow(statement.value)):
                if not _is_loss(program, statement.value, scope):
                    found |= {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return found


def _is_loss(program: Program, value: ast.expr, scope: Scope) -> bool:
    return isinstance(value, ast.Call) and program.values.kind(value.func, scope) is Kind.CRITERION


def _node_casts(
    program: Program, scope: Scope, node: ast.AST, produced: set[str], hazards: Hazards, settings: Settings
) -> None:
    if isinstance(node, ast.Call):
        if program.effects.is_forward(node, scope) and not program.effects.is_backward(node, scope):
            for argument in [*node.args, *(k.value for k in node.keywords)]:
                if _root_name(argument) in produced:
                    hazards.cast(argument)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if last in _MATMULS and program.canonical(node.func) is not None:
            for argument in node.args:
                if _root_name(argument) in produced:
                    hazards.cast(argument)
        if last == "numpy" and settings.dtype != "float16" and isinstance(node.func, ast.Attribute):
            if _root_name(node.func.value) in produced:
                hazards.cast(node.func.value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        for side in (node.left, node.right):
            if _root_name(side) in produced:
                hazards.cast(side)


def _root_name(expr: ast.expr) -> str | None:
    """`output` of `output.detach()[0]`; None for anything that is not one tensor's view."""
    while True:
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            if expr.func.attr in ("argmax", "item", "max", "topk", "size", "long", "int", "cpu", "tolist", "numpy", "float", "double"):
                return None if expr.func.attr != "cpu" else _root_name(expr.func.value)
            expr = expr.func.value
        elif isinstance(expr, ast.Subscript):
            expr = expr.value
        else:
            return expr.id if isinstance(expr, ast.Name) else None


def _statements(scope: Scope) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for statement in scope.body:
        found.append(statement)
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            found.extend(inner_statements(statement))
    return found
