"""Distributions whose parameters are half precision: `Normal(mean, out.abs())`.

Their arguments are checked: a spread must be greater than zero, and what half precision rounds to
zero ends the run. Probabilities are kept from zero and one by `eps` of their dtype. Noise is drawn,
and densities are computed, in the dtype of the parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.distances import squared
from amp_migrate.model.half_safety.given_values import (
    values_of,
    values_returned,
)
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.weak_places import Search
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.distributions import (
    Distribution,
    distribution,
)
from amp_migrate.torch_facts.ops import Trait

_RULE = "loses-precision"
_DEEP = 8
_IN_HALF = "a distribution draws and computes in the dtype of its parameters"
_BOUND = "probabilities are kept from 0 and 1 by 0.001 in half precision"
_SAME = frozenset(
    row.name for row in ops.shapes.ROWS if row.result in ("same", "tuple")
)


def spreads(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The layers and products that give the size of which a spread is made, which float32 computes:
    nothing keeps a size above zero, and half precision reaches zero where float32 does not.
    """
    for call, spread in _spreads(asked, node):
        for size, home in _sizes(asked, spread, scope, _DEEP):
            for one, where in _makers(asked, size, home, _DEEP):
                if _is_product(asked, one, where):
                    casts = _halves(asked, _operands(one), where)
                    why = _zero(call, size)
                    yield Hazard(_RULE, one, casts, why, spoils=True)


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """A distribution whose spread is half precision: its parameters become float32, where that
    is not too late.
    """
    for call, spread in _spreads(asked, node):
        for size, home in _sizes(asked, spread, scope, _DEEP):
            if _stays_half(asked, size, home):
                yield Hazard(_RULE, call, (), _zero(call, size))
        if asked.fact(spread, scope).seen_half:
            for weak in Search(asked, Trait.LOG).of(spread, scope):
                casts = () if weak.cast is None else (weak.cast,)
                yield Hazard("eps-underflow", node, casts, weak.what)
            for one in _halves(asked, _operands(call), scope):
                yield Hazard(_RULE, call, (one,), _IN_HALF)
    yield from _drawn(asked, node, scope)
    yield from _solved(asked, node, scope)
    for call, given in _probabilities(asked, node):
        if asked.fact(given, scope).seen_half:
            inner = [
                Hazard(_RULE, call, (weak.cast,), weak.what)
                for weak in Search(asked, Trait.LOG).of(given, scope)
                if weak.cast is not None
            ]
            yield from inner
            if not inner:
                yield Hazard(_RULE, call, (given,), _BOUND)


def _drawn(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """`gumbel_softmax(logits)`, whose noise is drawn in the dtype of the logits."""
    if not isinstance(node, ast.Call):
        return
    found = spelled(asked.inference, node, scope)
    if found is not None and Trait.DRAWS in found.op.traits:
        for one in _halves(asked, operands(found, node), scope):
            yield Hazard(_RULE, node, (one,), _IN_HALF)


def _solved(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """`MultivariateNormal(mean, scale_tril=out)`, whose densities solve for the matrix."""
    made = _made(asked, node)
    given = _given(node, made.algebra if made is not None else "", made)
    casts = _halves(asked, [one for _, one in given], scope)
    if casts and isinstance(node, ast.Call):
        message = f"`{ast.unparse(node.func)}` solves for a matrix, without a kernel for half"
        yield Hazard("ops-without-half-kernel", node, casts, message)


def _halves(
    asked: Asked, given: list[ast.expr], scope: Scope
) -> tuple[ast.expr, ...]:
    return tuple(one for one in given if asked.fact(one, scope).seen_half)


def _zero(call: ast.Call, size: ast.expr) -> str:
    return (
        f"`{ast.unparse(size)}` is exactly zero now and then in half precision, and "
        f"`{ast.unparse(call.func)}` raises an error there"
    )


def _spreads(
    asked: Asked, node: ast.AST
) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The parameters of a distribution that must be greater than zero."""
    made = _made(asked, node)
    return _given(node, made.positive if made is not None else "", made)


def _probabilities(
    asked: Asked, node: ast.AST
) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Those that are bounded by `eps` of their dtype."""
    made = _made(asked, node)
    return _given(node, made.probabilities if made is not None else "", made)


def _made(asked: Asked, node: ast.AST) -> Distribution | None:
    canonical = asked.inference.program.canonical
    return (
        distribution(canonical(node.func))
        if isinstance(node, ast.Call)
        else None
    )


def _given(
    call: ast.AST, names: str, made: Distribution | None
) -> Iterator[tuple[ast.Call, ast.expr]]:
    """What a call gives for some parameters, each with the call."""
    if not isinstance(call, ast.Call) or made is None:
        return
    named = {one.arg: one.value for one in call.keywords}
    for name in names.split():
        place = made.place(name)
        is_placed = place < len(call.args)
        given = call.args[place] if is_placed else named.get(name)
        if given is not None:
            yield call, given


# -- what has no bound above zero


def _sizes(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[tuple[ast.expr, Scope]]:
    """`x` of `x.abs()` and `x * x`, which are zero where `x` is, and on no interval else."""
    if deep == 0:
        return
    square = squared(asked, expr, scope)
    if square is not None:
        yield square, scope
        return
    if isinstance(expr, ast.Call):
        found = spelled(asked.inference, expr, scope)
        if found is not None and found.op.name in ("abs", "absolute"):
            yield from ((one, scope) for one in operands(found, expr)[:1])
            return
    for inner, home in _shown(asked, expr, scope):
        yield from _sizes(asked, inner, home, deep - 1)


def _shown(
    asked: Asked, expr: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    """What an expression shows: a name its values, a view or a multiple what it is one of."""
    if isinstance(expr, ast.Name):
        return list(_named(asked, expr))
    if isinstance(expr, (ast.Subscript, ast.UnaryOp)):
        inner = expr.value if isinstance(expr, ast.Subscript) else expr.operand
        return [(inner, scope)]
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, (ast.Mult, ast.Div)):
        sides = (expr.left, expr.right)
        return [(one, scope) for one in sides if number(one, scope) is None]
    if isinstance(expr, ast.Call):
        found = spelled(asked.inference, expr, scope)
        if found is not None and found.op.name in _SAME:
            return [(one, scope) for one in operands(found, expr)[:1]]
        return list(values_returned(asked.inference.program, expr, scope))
    return []


def _named(asked: Asked, name: ast.Name) -> Iterator[tuple[ast.expr, Scope]]:
    """The values of a name; where one is a part of what is not taken apart in sight, the whole."""
    inference = asked.inference
    for one in inference.program.reaching.at(name, name.id).bindings:
        found = list(values_of(inference, one))
        whole = one.value if one.index is not None and not found else None
        if whole is not None and whole in inference.program.module.parents:
            found = [(whole, inference.program.module.scope_of(whole))]
        yield from found


# -- what makes it half


def _stays_half(asked: Asked, size: ast.expr, scope: Scope) -> bool:
    """Whether what gives a size is out of sight, or cannot be computed in float32."""
    made = _makers(asked, size, scope, _DEEP)
    models = (one for one in made if not _is_product(asked, *one))
    return asked.fact(size, scope).seen_half or any(True for _ in models)


def _operands(made: ast.expr) -> list[ast.expr]:
    if isinstance(made, ast.BinOp):
        return [made.left, made.right]
    named = made.keywords if isinstance(made, ast.Call) else []
    places = made.args if isinstance(made, ast.Call) else []
    return [*places, *(one.value for one in named)]


def _makers(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[tuple[ast.expr, Scope]]:
    """The layers of torch, its products and the models that give a value in half precision."""
    made = asked.fact(expr, scope)._replace(container=False)
    if deep == 0 or not made.may_be_half:
        return
    if asked.inference.inside(expr) and (
        _is_product(asked, expr, scope) or _is_model(asked, expr, scope)
    ):
        yield expr, scope
        return
    for inner, home in _shown(asked, expr, scope):
        yield from _makers(asked, inner, home, deep - 1)


def _is_product(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """Whether autocast makes an operator or a layer of torch compute in half precision."""
    if not isinstance(expr, ast.Call):
        return isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.MatMult)
    found = spelled(asked.inference, expr, scope)
    if found is not None:
        return found.policy == "lower"
    value = asked.inference.program.values.of(expr.func, scope)
    row = layers.layer(value.name)
    return row is not None and row.op is not None and row.op.policy == "lower"


def _is_model(asked: Asked, expr: ast.expr, scope: Scope) -> bool:
    """Whether a model gives it whose forward is not in sight."""
    program = asked.inference.program
    if not isinstance(expr, ast.Call) or spelled(asked.inference, expr, scope):
        return False
    in_sight = any(True for _ in values_returned(program, expr, scope))
    return not in_sight and program.effects.is_forward(expr, scope)
