"""Numbers beyond float16: written as such, as the limit of another dtype, as a tensor without
dimensions (which takes over the dtype of the tensor that it meets).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.buffers import registered
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.spelling import given_to, spelled
from amp_migrate.model.values.literals import limited, number
from amp_migrate.model.values.numbers import numbers
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.amp_api import HALF_MAX

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_DEEP = 6
_BOUNDS = ("min", "max", "min_val", "max_val", "posinf", "neginf", "nan")
_VIEWS = frozenset(
    row for row in ops.shapes.ROWS if row.result in ("same", "tuple")
)


def whatever_huge(
    program: Program, expr: ast.expr, scope: Scope
) -> tuple[float, ...]:
    """The numbers that an expression may be, where all in sight are beyond float16, and finite."""
    sole = number(expr, scope)
    if sole is None and not any_written(program):
        return ()
    found = numbers(program, expr, scope) if sole is None else (sole,)
    return found if all(map(_is_beyond, found)) else ()


def may_be_huge(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """The same of every number that it may be, as far as these are in sight."""
    if isinstance(expr, ast.UnaryOp):
        return may_be_huge(asked, expr.operand, scope)
    if any(map(_is_beyond, numbers(asked.inference.program, expr, scope))):
        return True
    return any(
        _is_float_limit(asked, value, where)
        or _is_scalar_tensor(asked, value, where)
        for value, where in _behind(asked, expr, scope)
    )


def carries_huge(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether a tensor has such numbers among its values: `(1 - mask) * -1e9`."""
    if not any_written(asked.inference.program):
        return False
    if may_be_huge(asked, expr, scope):
        return True
    return deep > 0 and any(
        carries_huge(asked, one, home, deep - 1)
        for one, home in _parts(asked, expr, scope)
    )


def any_written(program: Program) -> bool:
    """Whether the program writes such a number at all, or asks for a limit."""
    return program.remembered(
        any_written,
        lambda: (
            "finfo" in program.module.text
            or any(map(_is_written, program.module.parents))
        ),
    )


def _is_written(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, (int, float)) and _is_beyond(value)


def _parts(
    asked: Asked, expr: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What an expression takes its values from."""
    if isinstance(expr, ast.BinOp) and isinstance(
        expr.op, (ast.Add, ast.Sub, ast.Mult)
    ):
        yield from ((one, scope) for one in (expr.left, expr.right))
    elif isinstance(expr, (ast.Name, ast.Attribute)):
        yield from values_of(asked, expr)
        yield from _behind(asked, expr, scope)
        yield from _stored(expr, scope)
    elif isinstance(expr, (ast.List, ast.Tuple)):
        yield from ((one, scope) for one in expr.elts)
    elif isinstance(expr, ast.Subscript):
        yield expr.value, scope
    elif isinstance(expr, ast.UnaryOp):
        yield expr.operand, scope
    elif isinstance(expr, ast.Call):
        found = spelled(asked.inference, expr, scope)
        if found is not None and _shows_values(found.op):
            yield from ((one, scope) for one in given_to(found, expr))


def _stored(expr: ast.expr, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """What is put into a tensor: `mask[0] = -1e9`."""
    name = dotted_name(expr) or ""
    home = scope.lookup(name.partition(".")[0])
    if home is not None:
        yield from ((one.value, home) for one in home.stored.get(name, ()))


def _shows_values(op: ops.Op) -> bool:
    """`torch.tensor([1e5])`, `x.new_tensor(1e5)`, `torch.full(size, 1e5)`, and views of these; what
    bounds values is not among them.
    """
    fills = any(name not in _BOUNDS for _, name in op.constants)
    return fills or op.result in ("data", "cast") or op in _VIEWS


def _is_beyond(value: float) -> bool:
    """Whether a finite number is infinite in float16."""
    return HALF_MAX < abs(value) < float("inf")


def _behind(
    asked: Asked, expr: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """An expression, or what a name, an attribute or a buffer is given."""
    inference = asked.inference
    dotted = dotted_name(expr)
    if not isinstance(expr, ast.Name):
        yield expr, scope
    if dotted is None:
        return
    if isinstance(expr, ast.Attribute):
        buffer = registered(inference.program, expr, scope)
        if buffer is not None:
            yield buffer
    module = inference.program.module
    for one in inference.program.reaching.at(expr, dotted).bindings:
        if one.value in module.parents and one.how == "assign":
            if one.value is not None and one.index is None:
                yield one.value, module.scope_of(one.value)


def _is_float_limit(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """`torch.finfo(weight.dtype).min` of a tensor that stays float32."""
    if isinstance(expr, ast.UnaryOp):
        return _is_float_limit(asked, expr.operand, scope)
    tensor = limited(expr, scope)
    if tensor is None:
        return False
    fact = asked.fact(tensor, scope)
    return bool(fact.dtypes & DType.FLOAT) and not fact.may_be_half


def _is_scalar_tensor(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """`torch.tensor(-1e9)`"""
    if not (isinstance(expr, ast.Call) and expr.args):
        return False
    found = ops.function(asked.inference.program.canonical(expr.func))
    is_data = found is not None and found.op.result == "data"
    return is_data and any(
        map(_is_beyond, numbers(asked.inference.program, expr.args[0], scope))
    )
