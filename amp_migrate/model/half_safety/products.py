"""Matrix products that half precision spoils: of sparse matrices, of what is counted up."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.literals import number
from amp_migrate.model.syntax import Scope
from amp_migrate.model.tensors.spelling import operands
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.amp_api import HALF_MAX
from amp_migrate.torch_facts.ops import Spelling
from amp_migrate.torch_facts.ops.row import INFINITY

_SPARSE = (
    "`{}` has no half kernel for sparse tensors: give it a `torch.autocast(..., enabled=False)` of "
    "its own"
)
_DEEP = 12
_TOLD_APART, _TOLD_APART_IN_BFLOAT16 = 2048, 256
"""Up to there the half types hold every whole number."""


def of_operator(
    asked: Asked, node: ast.BinOp, scope: Scope
) -> Iterator[Hazard]:
    """`adjacency @ x`."""
    if isinstance(node.op, ast.MatMult):
        yield from _product(asked, node, [node.left, node.right], scope)


def of_call(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """`torch.matmul(adjacency, x)`, `torch.sin(...)`."""
    given = operands(found, call)
    if found.policy == "lower" and found.form != "in-place":
        yield from _product(asked, call, given, scope)
    if found.op.name in ("sin", "cos") and given:
        product = _angle(asked, given[0], scope, _DEEP)
        if product is not None:
            message = (
                "positions are multiplied with frequencies here in half precision, which tells "
                "neither large numbers nor large angles apart: keep the product out of autocast"
            )
            yield Hazard("loses-precision", product, (), message)


def of_layer(asked: Asked, call: ast.Call, scope: Scope) -> Iterator[Hazard]:
    """`self.clock(seconds)` with a linear layer."""
    row = layers.layer(asked.inference.program.values.of(call.func, scope).name)
    if row is not None and row.op is not None and row.op.policy == "lower":
        yield from _product(asked, call, call.args[:1], scope)


def _product(
    asked: Asked, node: ast.expr, given: list[ast.expr], scope: Scope
) -> Iterator[Hazard]:
    if not asked.inference.inside(node):
        return
    far = next(
        (
            one
            for one in given
            if HALF_MAX < _extent(asked, one, scope) < INFINITY
        ),
        None,
    )
    if far is not None and asked.float16:
        message = (
            f"`{ast.unparse(far)}` does not fit into float16: keep the "
            "product out of autocast"
        )
        yield Hazard("big-constant-in-half", node, (), message)
    if any(asked.fact(one, scope).sparse for one in given):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else "@"
        yield Hazard("ops-without-half-kernel", node, (), _SPARSE.format(name))


# -- angles


def _angle(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> ast.expr | None:
    """The product in half precision that an angle comes from, if one side of it is positions."""
    if deep == 0:
        return None
    if isinstance(expr, ast.Name):
        found = (
            _angle(asked, value, home, deep - 1)
            for value, home in values_of(asked, expr)
        )
        return next((one for one in found if one is not None), None)
    sides = _sides(asked, expr, scope)
    is_product = _is_half_product(asked, expr, scope)
    limit = _TOLD_APART if asked.float16 else _TOLD_APART_IN_BFLOAT16
    if is_product and any(
        _extent(asked, side, scope) > limit for side in sides
    ):
        return expr
    if is_product:
        return None
    found = (_angle(asked, side, scope, deep - 1) for side in sides)
    return next((one for one in found if one is not None), None)


def _sides(asked: Asked, expr: ast.expr, scope: Scope) -> list[ast.expr]:
    """The tensors that an expression is computed from."""
    if isinstance(expr, ast.BinOp):
        return [expr.left, expr.right]
    if isinstance(expr, (ast.Subscript, ast.Attribute)):
        return [expr.value]
    if isinstance(expr, ast.Call):
        found = _spelled(asked, expr, scope)
        return operands(found, expr) if found is not None else []
    return [expr.operand] if isinstance(expr, ast.UnaryOp) else []


def _spelled(asked: Asked, call: ast.Call, scope: Scope) -> Spelling | None:
    canonical = asked.inference.program.canonical(call.func)
    if canonical is not None:
        return ops.function(canonical)
    return (
        ops.method(call.func.attr)
        if isinstance(call.func, ast.Attribute)
        else None
    )


def _is_half_product(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    if not asked.inference.inside(expr):
        return False
    if isinstance(expr, ast.BinOp):
        return isinstance(expr.op, ast.MatMult)
    found = _spelled(asked, expr, scope) if isinstance(expr, ast.Call) else None
    return found is not None and found.policy == "lower"


def _extent(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> float:
    """How far numbers reach that are counted up (`torch.arange(n)`), in whatever shape and dtype,
    shifted and scaled by literals; 0 where nothing counts.

    Remembered with the depth to which it was followed: many callers pass the same values on.
    """
    if deep <= 0:
        return 0.0
    known: dict[tuple[ast.expr, Scope], tuple[int, float]]
    known = asked.inference.program.remembered(_extent, dict)
    held = known.get((expr, scope))
    if held is None or held[0] < deep:
        known[expr, scope] = (
            deep,
            0.0,
        )  # what leads back to itself adds nothing
        held = known[expr, scope] = (
            deep,
            _followed_extent(asked, expr, scope, deep),
        )
    return held[1]


def _followed_extent(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> float:
    if isinstance(expr, ast.Attribute):
        buffer = asked.inference.registered(expr, scope)
        if buffer is not None:
            return _extent(asked, *buffer, deep - 1)
    if isinstance(expr, (ast.Name, ast.Attribute)):
        values = values_of(asked, expr)
        return max(
            (_extent(asked, value, home, deep - 1) for value, home in values),
            default=0.0,
        )
    if isinstance(expr, ast.BinOp):
        return _computed_extent(asked, expr, scope, deep)
    if isinstance(expr, ast.Subscript):
        return _extent(asked, expr.value, scope, deep - 1)
    found = _spelled(asked, expr, scope) if isinstance(expr, ast.Call) else None
    if found is None or not isinstance(expr, ast.Call):
        return 0.0
    if found.op.name == "arange":
        return _counted(expr, scope)
    if (
        not isinstance(expr.func, ast.Attribute)
        or found.op.name not in _SAME_NUMBERS
    ):
        return 0.0
    inner = [
        one
        for one in [expr.func.value, *expr.args[:1]]
        if not isinstance(one, ast.Constant)
    ]
    return max(
        (_extent(asked, one, scope, deep - 1) for one in inner), default=0.0
    )


_SAME_NUMBERS = frozenset(
    row.name for row in ops.shapes.ROWS if row.result == "same"
) | {
    "float",
    "to",
    "type_as",
    "double",
}


def _computed_extent(
    asked: Asked, expr: ast.BinOp, scope: Scope, deep: int
) -> float:
    for counted, other in ((expr.left, expr.right), (expr.right, expr.left)):
        by = number(other, scope)
        inner = (
            _extent(asked, counted, scope, deep - 1) if by is not None else 0.0
        )
        if by is None or not inner:
            continue
        if isinstance(expr.op, ast.Mult):
            return inner * abs(by)
        if isinstance(expr.op, (ast.Add, ast.Sub)):
            return inner + abs(by)
    return 0.0


def _counted(call: ast.Call, scope: Scope) -> float:
    """The largest number of `torch.arange(...)`; without a literal bound it may be any."""
    bounds = [number(one, scope) for one in call.args]
    known = [abs(one) for one in bounds if one is not None]
    return max(known) if known and len(known) == len(bounds) else INFINITY
