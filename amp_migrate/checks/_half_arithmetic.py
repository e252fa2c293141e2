"""What a function computes of a half-precision parameter alone, with nothing that would lift it to
float32.
"""

from __future__ import annotations

import ast

from amp_migrate.checks._region_values import is_half, note
from amp_migrate.checks._regions import statements
from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.torch_facts.methods import LEAVES_RANGE


def computes_in_half(
    program: Program, function: Function, call: ast.Call, scope: Scope
) -> bool:
    """Whether a function that gets a half-precision value first raises, sums or takes logarithms of
    it, or of what it makes of it alone.
    """
    inner = program.scope(function)
    bound = inner.takes_receiver
    given = call.args[0] if call.args else None
    names = [one.arg for one in inner.parameters()]
    known = {
        name
        for name in names
        if given is not None and argument(call, inner, name, bound) is given
    }
    for statement in statements(function.body):
        note(program, statement, inner, known, may_start=False)
    return any(
        is_half(program, operand, inner, known, may_start=False)
        for node in nodes_in(function)
        if (operand := _operand(program, node)) is not None
    )


def _operand(program: Program, node: ast.AST) -> ast.expr | None:
    """What is raised, summed, or taken the logarithm of."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return node.left
    if not isinstance(node, ast.Call) or not isinstance(
        node.func, ast.Attribute
    ):
        return None
    if node.func.attr not in LEAVES_RANGE:
        return None
    if (program.canonical(node.func) or "").startswith("torch."):
        return node.args[0] if node.args else None
    return node.func.value
