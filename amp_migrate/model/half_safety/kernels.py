"""Operators without a kernel for half precision."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.torch_facts.ops import Kernels, Spelling, Trait

_RULE = "ops-without-half-kernel"
_BREAKS = (
    "`{}` multiplies matrices inside, in half precision under autocast, and has no kernel for it: "
    "give it a `torch.autocast(..., enabled=False)` of its own"
)


def hazards(
    asked: Asked, call: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """Operands that an operator cannot take in half, and operators that break by themselves."""
    op = found.op
    inside = asked.inference.inside(call)
    name = ast.unparse(call.func)
    if op.always_breaks:
        if inside:
            yield Hazard(_RULE, call, (), _BREAKS.format(name))
        return
    if _takes_half(asked, found) or (
        inside and found.policy in ("fp32", "banned")
    ):
        return
    casts = [
        one
        for one in operands(found, call)
        if _breaks(asked, one, op.traits, scope)
    ]
    if casts:
        certain = all(asked.fact(one, scope).seen_half for one in casts)
        message = f"half precision has no kernel for `{name}`"
        yield Hazard(_RULE, call, tuple(casts), message, certain)


def apart(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """Operators that break wherever autocast is on: it is switched off for them, and they get
    float32.
    """
    if not isinstance(node, ast.Call) or not asked.inference.inside(node):
        return
    found = spelled(asked.inference, node, scope)
    if found is not None and found.op.always_breaks:
        given = operands(found, node)
        casts = tuple(one for one in given if asked.needs_cast(one, scope))
        message = _BREAKS.format(ast.unparse(node.func))
        yield Hazard(_RULE, node, casts, message, spoils=True)


def _takes_half(asked: Asked, found: Spelling) -> bool:
    """Complex numbers of half precision are an experiment, with few operators."""
    needed = (
        Kernels.HALF | Kernels.HALF_BACKWARD
        if asked.float16
        else Kernels.BFLOAT16
    )
    is_plain = (
        not found.op.traits & Trait.FOURIER and found.op.result != "complex"
    )
    return needed in found.op.kernels and is_plain


def _breaks(
    asked: Asked, operand: ast.expr, traits: Trait, scope: Scope
) -> bool:
    """A complex operand has lost its half precision when it was made, and a cast would drop its
    imaginary part.
    """
    fact = asked.fact(operand, scope)
    if (
        isinstance(operand, (ast.Constant, ast.Starred))
        or DType.COMPLEX in fact.dtypes
    ):
        return False
    if traits & Trait.COMPLEX:
        return fact.seen_half
    return fact.may_be_half and not fact.container
