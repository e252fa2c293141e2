"""Values that leave a region in half precision and meet float32 weights or buffers outside: they leave as float."""

from __future__ import annotations

import ast

from amp_migrate.config import Settings
from amp_migrate.migrate.arrays import array_casts
from amp_migrate.migrate.flow import flow_of, header
from amp_migrate.migrate.hazards import Hazards
from amp_migrate.migrate.region import Regions
from amp_migrate.model.effects import inner_statements
from amp_migrate.model.kinds import Kind
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope, shallow
from amp_migrate.names import dotted_name

_NUMBERS = {"item", "argmax", "numpy", "tolist", "float", "long", "int", "eq", "topk", "size", "shape"}
_MATMULS = {"matmul", "mm", "bmm", "linear", "addmm", "einsum", "conv1d", "conv2d", "conv3d", "dot", "mv", "baddbmm"}


def casts_after(
    program: Program, scope: Scope, regions: Regions, late: frozenset[ast.stmt], hazards: Hazards, settings: Settings
) -> None:
    """Collect the casts of one scope: outputs given to another model outside autocast, index writes, NumPy of bfloat16."""
    if settings.dtype != "float16":
        array_casts(program, scope, regions, late, hazards)
    inside = {id(s) for region in regions.regions for top in region.statements() for s in (top, *inner_statements(top))}
    inside |= {id(hoist.statement) for hoist in regions.hoists}
    outputs = _outputs(program, scope, inside)
    flow = flow_of(scope, program)
    carried: set[int] = set()
    for step in flow.steps:
        statement = step.statement
        if id(statement) in inside or statement in late:
            continue
        half = inside | carried
        halves = {n for n in step.uses & outputs if any(id(d.statement) in half for d in flow.reaching(n, step.order))}
        if not halves:
            continue
        if isinstance(statement, ast.Assign) and not _is_number(statement.value):
            outputs |= step.defines  # arithmetic on half values is half
            carried.add(id(statement))
        for root in header(statement):
            for node in shallow(root):
                _node_casts(program, scope, node, halves, hazards)
        if isinstance(statement, ast.Assign):
            hazards.written(statement, scope, frozenset(halves))


def _outputs(program: Program, scope: Scope, inside: set[int]) -> set[str]:
    """Names bound by statements under autocast that run a model: the only ones that may be half."""
    found: set[str] = set()
    flow = flow_of(scope, program)
    for statement in (step.statement for step in flow.steps):
        if id(statement) in inside and isinstance(statement, ast.Expr):
            found |= flow.step(statement).defines  # `self.forward()` sets attributes
        if id(statement) in inside and isinstance(statement, ast.Assign):
            if any(isinstance(n, ast.Call) and program.effects.is_forward(n, scope) for n in shallow(statement.value)):
                if not _is_loss(program, statement.value, scope):
                    found |= flow.step(statement).defines
    return found


def _is_loss(program: Program, value: ast.expr, scope: Scope) -> bool:
    return isinstance(value, ast.Call) and program.values.kind(value.func, scope) is Kind.CRITERION


def _node_casts(program: Program, scope: Scope, node: ast.AST, produced: set[str], hazards: Hazards) -> None:
    if isinstance(node, ast.Call):
        if program.values.is_model(node.func, scope):
            for argument in [*node.args, *(k.value for k in node.keywords)]:
                if _root_name(argument) in produced:
                    hazards.cast(argument)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if any(_root_name(a) in produced for a in node.args):
            hazards.after_region(node, scope, {id(a) for a in node.args if _root_name(a) in produced})
        if last in _MATMULS and program.canonical(node.func) is not None:
            for argument in node.args:
                if _root_name(argument) in produced:
                    hazards.cast(argument)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        for side in (node.left, node.right):
            if _root_name(side) in produced:
                hazards.cast(side)


def _root_name(expr: ast.expr) -> str | None:
    """`output` of `output.detach()[0]`; None for anything that is not one tensor's view."""
    while True:
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            if expr.func.attr in (
                "argmax",
                "item",
                "max",
                "topk",
                "size",
                "long",
                "int",
                "cpu",
                "tolist",
                "numpy",
                "float",
                "double",
            ):
                return None if expr.func.attr != "cpu" else _root_name(expr.func.value)
            expr = expr.func.value
        elif isinstance(expr, ast.Subscript):
            expr = expr.value
        else:
            return dotted_name(expr)


def _is_number(value: ast.expr) -> bool:
    """A Python number, an index or a comparison made of a tensor: no longer half."""
    if isinstance(value, (ast.Compare, ast.BoolOp)):
        return True
    while isinstance(value, (ast.Call, ast.Attribute, ast.Subscript)):
        func = value.func if isinstance(value, ast.Call) else value
        if isinstance(func, ast.Attribute) and func.attr in _NUMBERS:
            return True
        if isinstance(func, ast.Name):
            return isinstance(value, ast.Call) and func.id in ("int", "float", "len", "bool")
        if isinstance(func, (ast.Attribute, ast.Subscript)):
            value = func.value
        else:
            return False
    return False
