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
from amp_migrate.model.values.literals import is_number
from amp_migrate.torch_facts.methods import LEAVES_RANGE

_HOPS = 2
"""Methods of methods that are looked into."""


def computes_in_half(
    program: Program,
    function: Function,
    call: ast.Call,
    scope: Scope,
    hops: int = _HOPS,
) -> bool:
    """Whether a function that gets a half-precision value first raises, sums or takes logarithms of
    it, or of what it makes of it alone, itself or in a method that it calls.
    """
    given = call.args[0] if call.args else None
    return given is not None and _computes(program, function, call, given, hops)


def _computes(
    program: Program,
    function: Function,
    call: ast.Call,
    given: ast.expr,
    hops: int,
) -> bool:
    inner = program.scope(function)
    bound = inner.takes_receiver
    known = {
        one.arg
        for one in inner.parameters()
        if argument(call, inner, one.arg, bound) is given
    }
    for statement in statements(function.body):
        note(program, statement, inner, known, may_start=False)

    def half(expr: ast.expr) -> bool:
        bare = _bare(program, expr, inner)
        return is_half(program, bare, inner, known, may_start=False)

    if any(
        half(operand)
        for node in nodes_in(function)
        if (operand := _operand(program, node)) is not None
        and not _is_differentiated(program, node)
    ):
        return True
    return hops > 0 and any(
        half(one) and _computes(program, method, further, one, hops - 1)
        for further in inner.calls
        for method in program.values.callees(further, inner)
        for one in further.args
    )


def _bare(program: Program, expr: ast.expr, scope: Scope) -> ast.expr:
    """`pred` of `pred[mask] + self.eps`, which keeps its type."""
    while True:
        if isinstance(expr, ast.Subscript) and isinstance(expr.slice, ast.Name):
            expr = expr.value
        elif isinstance(expr, ast.BinOp) and is_number(
            program, expr.right, scope
        ):
            expr = expr.left
        else:
            return expr


def _is_differentiated(program: Program, node: ast.AST) -> bool:
    """`torch.autograd.grad(score.sum(), image)`, for which the value does not count."""
    return any(
        isinstance(above, ast.Call)
        and program.canonical(above.func) == "torch.autograd.grad"
        for above in program.module.ancestors(node)
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
