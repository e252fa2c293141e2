"""Products that are summed up before something divides: by how many there are, by their own sum,
by the lengths of the vectors. Float16 ends at 65504, and what is infinite stays infinite.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.half_safety.distances import squared
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import method_name, values_of
from amp_migrate.model.half_safety.plain_sums import only_sums
from amp_migrate.model.half_safety.second_moments import (
    TURNED,
    factors,
    kept_apart,
    origins,
)
from amp_migrate.model.half_safety.squared_lengths import root_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.parameters import arguments
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts.ops import Spelling
from amp_migrate.torch_facts.ops.roles import BOUNDS_BELOW, LENGTHS, OUTER_SUMS

_COUNTS = frozenset({"size", "numel", "shape", "sum", "nelement"})
_DEEP = 6
Vector: TypeAlias = tuple[str, Scope]
"""A name of one, in a body."""


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """Products that a division follows."""
    found = division(asked, node, scope) if asked.float16 else None
    if found is None:
        return
    above, below = found
    if is_count(asked, below, scope):
        yield from _products(asked, above, below, scope, None)
        return
    lengths = set(_lengths(asked, below, scope, _DEEP))
    of_these = list(_products(asked, above, below, scope, lengths))
    yield from of_these
    if of_these:
        yield from _products(asked, below, below, scope, None)


def division(
    asked: Asked, node: ast.AST, scope: Scope
) -> tuple[ast.expr, ast.expr] | None:
    """What is divided, and by what."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return node.left, node.right
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        return node.target, node.value
    if not isinstance(node, ast.Call):
        return None
    found = spelled(asked.inference, node, scope)
    if found is None or found.op.name != "div":
        return None
    given = operands(found, node)
    return (given[0], given[1]) if len(given) == 2 else None


def _products(
    asked: Asked,
    expr: ast.expr,
    divisor: ast.expr,
    scope: Scope,
    wanted: set[Vector] | None,
) -> Iterator[Hazard]:
    """The products that an expression is made of, of vectors that are `wanted`, before they are
    divided.
    """
    for one, home in summands(asked, expr, scope, _DEEP):
        given = _factors(asked, one, home)
        if len(given) == 2 and (
            wanted is None
            or any(_is_one_of(asked, side, home, wanted) for side in given)
        ):
            what = f"`{ast.unparse(one)}` is summed up before `{ast.unparse(divisor)}` divides"
            yield from kept_apart(asked, one, given, home, what)


def _is_one_of(
    asked: Asked, side: ast.expr, home: Scope, wanted: set[Vector]
) -> bool:
    """Whether a factor is one of some vectors, which other functions call as they like."""
    name = root_name(side)
    if name is None:
        return False
    known = {(name, home), *_given(asked, name, home)}
    return any(
        known.intersection({one, *_given(asked, *one)}) for one in wanted
    )


def _given(asked: Asked, name: str, home: Scope) -> Iterator[Vector]:
    """What callers give for a parameter."""
    program = asked.inference.program
    for binding in home.bindings.get(name, ()):
        if binding.how == "parameter":
            for expr, where in arguments(program, binding):
                root = root_name(expr)
                at = where.lookup(root) if root is not None else None
                bound = at.bindings[root] if at is not None and root else ()
                # `torch` of `torch.mv(a, b)` is no vector.
                if root is not None and bound and bound[0].how != "import":
                    yield root, where


def summands(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[tuple[ast.expr, Scope]]:
    """What an expression is, and what it is the sum or product of."""
    seen: set[ast.expr] = set()
    wanted = [(expr, scope, deep)]
    while wanted:
        inner, where, left = wanted.pop(0)
        for one, home in origins(asked, inner, where, _DEEP):
            if one in seen:
                continue
            seen.add(one)
            sides = _sides(asked, one, home) if left else []
            wanted += [(side, home, left - 1) for side in sides]
            if not sides:
                yield one, home


def _sides(asked: Asked, expr: ast.expr, scope: Scope) -> list[ast.expr]:
    """The terms of a sum, the factors of a product, what a guard lets through."""
    if isinstance(expr, ast.BinOp):
        plain = isinstance(expr.op, (ast.Add, ast.Sub, ast.Mult))
        return [expr.left, expr.right] if plain else []
    if not isinstance(expr, ast.Call):
        return []
    found = spelled(asked.inference, expr, scope)
    is_guard = found is not None and found.op.name in BOUNDS_BELOW
    return operands(found, expr)[:1] if found is not None and is_guard else []


def _factors(asked: Asked, node: ast.expr, scope: Scope) -> list[ast.expr]:
    """The two sides of a product of activations that autocast computes in half precision."""
    given = factors(asked, node, scope)
    if given or not isinstance(node, ast.Call):
        return given
    found = spelled(asked.inference, node, scope)
    if found is None or found.form == "in-place" or found.policy != "lower":
        return []
    if found.op.name in OUTER_SUMS:
        return operands(found, node)
    words = {one.arg: one.value for one in node.keywords}
    both = [words.get("input"), words.get("weight")]
    plain = [one for one in node.args if not isinstance(one, ast.Starred)]
    both = [one or (plain.pop(0) if plain else None) for one in both]
    is_batch_summed = found.op.name.startswith("nn.functional.conv") and any(
        _is_turned(asked, one, scope, _DEEP) for one in both[1:] if one
    )
    return [one for one in both if one] if is_batch_summed else []


def _is_turned(asked: Asked, expr: ast.expr, scope: Scope, deep: int) -> bool:
    """`x.permute(1, 0, 2, 3)`: a kernel of activations, whose batch is summed over."""
    if deep == 0:
        return False
    if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
        return method_name(expr) in TURNED or _is_turned(
            asked, expr.func.value, scope, deep - 1
        )
    return any(
        _is_turned(asked, one, home, deep - 1)
        for one, home in values_of(asked, expr)
    )


# -- divisors


def is_count(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """A number of values: a size, a length, a sum of weights."""
    waiting = [(expr, scope, _DEEP)]
    while waiting:
        one, home, hops = waiting.pop()
        if _counts(one):
            continue
        parts = _computed_from(one, home)
        if parts is not None:
            waiting += [(part, home, hops) for part in parts]
            continue
        found = values_of(asked, one, parts=True) if hops else []
        if not found:
            return False
        waiting += [(value, where, hops - 1) for value, where in found]
    return True


def _counts(expr: ast.expr) -> bool:
    """`len(x)`, `x.shape`, `mask.sum()`, `torch.einsum("bt->b", mask)`."""
    if isinstance(expr, ast.Attribute):
        return expr.attr == "shape"
    if not isinstance(expr, ast.Call):
        return False
    if isinstance(expr.func, ast.Name):
        return expr.func.id == "len"
    name = method_name(expr)
    return name in _COUNTS or name == "einsum" and only_sums(expr)


def _computed_from(expr: ast.expr, scope: Scope) -> list[ast.expr] | None:
    """What has to be a count for an expression to be one; None where its syntax does not tell."""
    if isinstance(expr, ast.BinOp):
        sides = [
            one for one in (expr.left, expr.right) if number(one, scope) is None
        ]
        is_plain = isinstance(expr.op, (ast.Add, ast.Sub, ast.Mult))
        return sides if is_plain and sides else None
    if isinstance(expr, ast.Subscript):
        return [expr.value]
    if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name):
        is_plain = expr.func.id in ("float", "int")
        return expr.args[:1] if is_plain and expr.args else None
    return None


def _lengths(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[Vector]:
    """Whose lengths a divisor is made of: `x` and `y` of `x.norm(dim=1) * y.norm(dim=1)`."""
    if deep <= 0:
        return
    for one, home in summands(asked, expr, scope, deep):
        found = (
            spelled(asked.inference, one, home)
            if isinstance(one, ast.Call)
            else None
        )
        if found is None or not isinstance(one, ast.Call):
            inner = factors(asked, one, home)
        elif found.op.name in LENGTHS:
            name = root_name(operands(found, one)[0])
            yield from [(name, home)] if name is not None else []
            continue
        elif found.op.name == "sqrt":
            for side in operands(found, one):
                yield from _squared_up(asked, side, home)
            continue
        else:
            inner = operands(found, one) if _is_product(found) else []
        for side in inner:
            yield from _lengths(asked, side, home, deep - 1)


def _is_product(found: Spelling) -> bool:
    return found.policy == "lower" or found.op.name in ("outer", "mul")


def _squared_up(asked: Asked, expr: ast.expr, scope: Scope) -> Iterator[Vector]:
    """`x` of `(x ** 2).sum(1)`."""
    for one, home in summands(asked, expr, scope, _DEEP):
        found = (
            spelled(asked.inference, one, home)
            if isinstance(one, ast.Call)
            else None
        )
        if found is None or found.op.name != "sum":
            continue
        assert isinstance(one, ast.Call)
        square = squared(asked, operands(found, one)[0], home)
        name = root_name(square) if square is not None else None
        yield from [(name, home)] if name is not None else []
