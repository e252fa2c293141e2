"""Matrix products that half precision spoils: of sparse matrices, of what is counted up."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.extents import extent, operator_of
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.huge_numbers import carries_huge
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.torch_facts import layers
from amp_migrate.torch_facts.amp_api import HALF_MAX
from amp_migrate.torch_facts.ops import Spelling
from amp_migrate.torch_facts.ops.roles import WAVES
from amp_migrate.torch_facts.ops.row import INFINITY

_SPARSE = (
    "`{}` has no half kernel for sparse tensors: give it a `torch.autocast(..., enabled=False)` of "
    "its own"
)
_DEEP = 12
_TOLD_APART, _TOLD_APART_IN_BFLOAT16 = 2048, 256
"""Up to there the half types hold every whole number."""


def apart(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """Products of sparse matrices, `adjacency @ x`, and of masks that do not fit: autocast is
    switched off for them.
    """
    given: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        given = [node.left, node.right]
    elif isinstance(node, ast.Call):
        found = spelled(asked.inference, node, scope)
        is_product = found is not None and found.policy == "lower"
        if found is not None and is_product and found.form != "in-place":
            given = operands(found, node)
        elif found is None:
            given = _given_layer(asked, node, scope)
    is_sparse = any(asked.fact(one, scope).sparse for one in given)
    if is_sparse and asked.inference.inside(node):
        casts = tuple(one for one in given if asked.needs_cast(one, scope))
        yield _of_sparse(node, casts)
    elif asked.float16 and asked.inference.inside(node):
        yield from _of_huge(asked, node, given, scope)


def _of_huge(
    asked: Asked, node: ast.AST, given: list[ast.expr], scope: Scope
) -> Iterator[Hazard]:
    """`torch.baddbmm(mask, q, k)` of a mask of `-1e9`, which autocast makes infinite."""
    far = next((one for one in given if carries_huge(asked, one, scope)), None)
    if far is not None:
        casts = tuple(one for one in given if asked.needs_cast(one, scope))
        message = f"`{ast.unparse(far)}` holds numbers beyond float16"
        yield Hazard("big-constant-in-half", node, casts, message, spoils=True)


def _of_sparse(node: ast.AST, casts: tuple[ast.expr, ...] = ()) -> Hazard:
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else "@"
    message = _SPARSE.format(name)
    rule = "ops-without-half-kernel"
    return Hazard(rule, node, casts, message, spoils=True)


def of_operator(
    asked: Asked, node: ast.BinOp, scope: Scope
) -> Iterator[Hazard]:
    """`adjacency @ x`, `1j * x`."""
    if isinstance(node.op, ast.MatMult):
        yield from _product(asked, node, [node.left, node.right], scope)
    elif isinstance(node.op, ast.Mult):
        yield from _imaginary(asked, node, scope)


def _imaginary(asked: Asked, node: ast.BinOp, scope: Scope) -> Iterator[Hazard]:
    """`1j * sine`, which is a complex number of half precision where `sine` is half."""
    for number, other in ((node.left, node.right), (node.right, node.left)):
        is_complex = isinstance(number, ast.Constant) and isinstance(
            number.value, complex
        )
        if is_complex and asked.fact(other, scope).seen_half:
            message = "complex numbers of half precision have few operators"
            yield Hazard("ops-without-half-kernel", node, (other,), message)


def of_call(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """`torch.matmul(adjacency, x)`, `torch.sin(...)`."""
    given = operands(found, call)
    if found.policy == "lower" and found.form != "in-place":
        yield from _product(asked, call, given, scope)
    if found.op.name in WAVES and given:
        product = _angle(asked, given[0], scope, _DEEP)
        if product is not None:
            message = (
                "positions are multiplied with frequencies here in half precision, which tells "
                "neither large numbers nor large angles apart: keep the product out of autocast"
            )
            yield Hazard("loses-precision", product, (), message)


def of_layer(asked: Asked, call: ast.Call, scope: Scope) -> Iterator[Hazard]:
    """`self.clock(seconds)` with a linear layer."""
    yield from _product(asked, call, _given_layer(asked, call, scope), scope)


def _given_layer(asked: Asked, call: ast.Call, scope: Scope) -> list[ast.expr]:
    """What a layer that multiplies with its weights is given."""
    row = layers.layer(asked.inference.program.values.of(call.func, scope).name)
    op = row.op if row is not None else None
    is_product = op is not None and op.policy == "lower"
    named = [one.value for one in call.keywords]
    return [*call.args, *named] if is_product else []


def _product(
    asked: Asked, node: ast.expr, given: list[ast.expr], scope: Scope
) -> Iterator[Hazard]:
    if not asked.inference.inside(node):
        return
    far = next(
        (
            one
            for one in given
            if HALF_MAX < extent(asked, one, scope) < INFINITY
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
        yield _of_sparse(node)


# -- what is computed of products


def product_factors(
    asked: Asked, node: ast.expr, scope: Scope
) -> list[ast.expr]:
    """What a product of matrices multiplies; layers learn from what they get."""
    if isinstance(node, ast.BinOp):
        is_product = isinstance(node.op, ast.MatMult)
        return [node.left, node.right] if is_product else []
    if not isinstance(node, ast.Call):
        return []
    found = spelled(asked.inference, node, scope)
    if (
        found is None
        or found.policy != "lower"
        or found.op.name.startswith("nn.functional.")
    ):
        return []
    return operands(found, node)


def _angle(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> ast.expr | None:
    """The product in half precision that an angle comes from, if one side of it is positions."""
    limit = _TOLD_APART if asked.float16 else _TOLD_APART_IN_BFLOAT16
    for node, home in behind(asked, expr, scope, deep):
        sides = _sides(asked, node, home)
        if any(extent(asked, side, home) > limit for side in sides):
            return node
    return None


def behind(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> Iterator[tuple[ast.expr, Scope]]:
    """The products in half precision that a value comes from, by operators; each once, however many
    ways lead there.
    """
    yield from _Behind(asked).of(expr, scope, deep)


class _Behind:
    """Follows a value back. What was met is followed again where more of the way is left alone."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.left: dict[ast.expr, int] = {}
        self.given: set[ast.expr] = set()

    def of(
        self, expr: ast.expr, scope: Scope, deep: int
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """Those behind an expression that were not met yet."""
        if deep <= self.left.get(expr, 0):
            return
        self.left[expr] = deep
        if isinstance(expr, ast.Name):
            inner = values_of(self.asked, expr)
        elif _is_half_product(self.asked, expr, scope):
            if expr not in self.given:
                self.given.add(expr)
                yield expr, scope
            return
        else:
            inner = [(side, scope) for side in _sides(self.asked, expr, scope)]
        for value, home in inner:
            yield from self.of(value, home, deep - 1)


def _sides(asked: Asked, expr: ast.expr, scope: Scope) -> list[ast.expr]:
    """The tensors that an expression is computed from."""
    if isinstance(expr, ast.BinOp):
        return [expr.left, expr.right]
    if isinstance(expr, (ast.Subscript, ast.Attribute)):
        return [expr.value]
    if isinstance(expr, ast.Call):
        found = operator_of(asked.inference, expr)
        return operands(found, expr) if found is not None else []
    return [expr.operand] if isinstance(expr, ast.UnaryOp) else []


def _is_half_product(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    if not asked.inference.inside(expr):
        return False
    if isinstance(expr, ast.BinOp):
        return isinstance(expr.op, ast.MatMult)
    found = (
        operator_of(asked.inference, expr)
        if isinstance(expr, ast.Call)
        else None
    )
    return found is not None and found.policy == "lower"
