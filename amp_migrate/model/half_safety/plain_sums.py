"""Sums that are spelled as products of matrices: `einsum("bct->bc", x)`, `einsum("bi,bi->b", p,
y)`, `x @ ones`. `sum` would be computed in float32 under autocast, a product is computed in half,
and nothing bounds how many terms it adds up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.second_moments import (
    factors,
    kept_apart,
    origins,
)
from amp_migrate.model.half_safety.writes import written
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.torch_facts.ops import Spelling
from amp_migrate.torch_facts.ops.roles import (
    ADDS_AT,
    COVARIANCES,
    ONES,
    SUMS_IN_HALF,
)

_DEEP = 6


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """A product that only adds up."""
    if not isinstance(node, ast.expr):
        return
    given = _summed(asked, node, scope) or _with_ones(asked, node, scope)
    if given:
        what = f"`{ast.unparse(node)}` adds up any number of terms"
        yield from kept_apart(asked, node, given, scope, what)


def in_half(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """What adds up half values in half precision, and autocast does not know."""
    if isinstance(node, ast.Call):
        found = spelled(asked.inference, node, scope)
        if found is not None:
            yield from _counts(asked, node, found, scope)
            yield from _totals(asked, node, found, scope)


def _counts(
    asked: Asked, node: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """`count.index_add_(0, index, ones)`: in half precision a count stands still at 2048, where one
    more is less than half a step.
    """
    pair = written(node, found) if found.op.name in ADDS_AT else None
    if pair is None or not asked.fact(pair[1], scope).seen_half:
        return
    if _is_of_ones(asked, pair[1], scope, whole=False):
        message = f"`{ast.unparse(pair[1])}` may be ones that are counted in half precision"
        yield Hazard("loses-precision", node, (pair[1],), message)


def _totals(
    asked: Asked, node: ast.Call, found: Spelling, scope: Scope
) -> Iterator[Hazard]:
    """`torch.nansum(errors)`, `F.avg_pool2d(x, 9, divisor_override=1)`"""
    needed = SUMS_IN_HALF.get(found.op.name)
    if needed is None:
        return
    if needed and needed not in {one.arg for one in node.keywords}:
        return
    for given in operands(found, node)[:1]:
        if asked.fact(given, scope).seen_half:
            what = f"`{ast.unparse(node)}` adds up any number of terms in half precision"
            yield Hazard("loses-precision", node, (given,), what)


def _summed(asked: Asked, node: ast.expr, scope: Scope) -> list[ast.expr]:
    """What an `einsum` without a product of matrices adds up, and a covariance."""
    if not isinstance(node, ast.Call):
        return []
    found = spelled(asked.inference, node, scope)
    if found is not None and found.op.name in COVARIANCES:
        return operands(found, node)
    if found is None or found.op.name != "einsum" or not node.args:
        return []
    return operands(found, node) if only_sums(node) else []


def only_sums(einsum: ast.Call) -> bool:
    """Whether no operand has an index of its own that the result keeps, and several indices, or
    those of one operand, are summed over.
    """
    first = einsum.args[0] if einsum.args else None
    text = first.value if isinstance(first, ast.Constant) else None
    return isinstance(text, str) and _sums(text)


def _sums(subscripts: str) -> bool:
    given, arrow, kept = subscripts.replace(" ", "").partition("->")
    if not arrow or "..." in subscripts:
        return False
    terms = [set(term) for term in given.split(",")]
    summed = set.union(*terms) - set(kept)
    shared = set.intersection(*terms)
    own = any(term & set(kept) - shared for term in terms)
    return bool(summed) and not own and (len(terms) == 1 or len(summed) > 1)


def _with_ones(asked: Asked, node: ast.expr, scope: Scope) -> list[ast.expr]:
    """The sides of a product of matrices, one of which holds nothing but ones."""
    sides = factors(asked, node, scope)
    if len(sides) != 2 or not any(_is_of_ones(asked, s, scope) for s in sides):
        return []
    return sides


def _is_of_ones(
    asked: Asked, expr: ast.expr, scope: Scope, *, whole: bool = True
) -> bool:
    """Whether all that a value may be, or some of it, holds nothing but ones."""
    names = [
        found.op.name
        for one, home in origins(asked, expr, scope, _DEEP)
        if isinstance(one, ast.Call)
        and (found := spelled(asked.inference, one, home)) is not None
    ]
    ones = [name in ONES for name in names]
    return bool(ones) and (all(ones) if whole else any(ones))
