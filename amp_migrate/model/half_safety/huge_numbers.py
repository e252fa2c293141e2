"""Numbers beyond float16: written as such, as the limit of another dtype, as a tensor without
dimensions (which takes over the dtype of the tensor that it meets).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.literals import limited, number
from amp_migrate.model.names import dotted_name
from amp_migrate.model.numbers import numbers
from amp_migrate.model.syntax import Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.amp_api import HALF_MAX


def is_huge(expr: ast.expr, scope: Scope) -> bool:
    """Whether a number is beyond float16, and finite."""
    value = number(expr, scope)
    return value is not None and _is_beyond(value)


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


def _is_beyond(value: float) -> bool:
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
        registered = inference.registered(expr, scope)
        if registered is not None:
            yield registered
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
