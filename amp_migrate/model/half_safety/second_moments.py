"""Second moments: means of products, of which the product of the means is taken away, and matrices
times their own transpose.

The first are large numbers that nearly cancel (`E[xy] - E[x] E[y]`: variances, SSIM), the second
add up as many squares as there are samples, before anything divides by their number. Half precision
has neither the digits nor the range.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import method_name, values_of
from amp_migrate.model.syntax.module import Scope, returned, shallow
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts import layers
from amp_migrate.torch_facts.ops import Op, Spelling, products
from amp_migrate.torch_facts.ops.roles import SQUARES

_FLAT = ("view", "reshape", "flatten")
TURNED = ("t", "T", "mT", "transpose", "permute")
_SHOWN = frozenset(
    {*_FLAT, *TURNED, "unsqueeze", "squeeze", "contiguous", "expand", "float"}
)
_MEANS = frozenset({"mean"}) | {f"nn.functional.{n}avg_pool{d}d" for n in ("", "adaptive_")
                                for d in (1, 2, 3)}  # fmt: skip
_KEYWORDS = ("input", "weight", "bias")
_DEEP = 6


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """Products that belong to a second moment."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        yield from _differences(asked, node, scope)
    given = factors(asked, node, scope)
    if isinstance(node, ast.Call):
        yield from _repeated(asked, node, scope)
    if not isinstance(node, ast.expr) or len(given) != 2:
        return
    if _is_own_transpose(asked, *given) or _is_beside_own(asked, node, scope):
        what = (
            f"`{ast.unparse(node)}` adds up as many squares as there are values"
        )
        yield from kept_apart(asked, node, given, scope, what)
    for one in _quadratic(asked, node, scope):
        what = (
            f"`{ast.unparse(node)}` adds up as many products as there are pairs"
        )
        sides = factors(asked, one, scope)
        yield from kept_apart(asked, one, sides, scope, what)


def _repeated(asked: Asked, call: ast.Call, scope: Scope) -> Iterator[Hazard]:
    """`torch.einsum("ci,ij,cj->c", s, adjacency, s)`, which is a quadratic form as well."""
    found = spelled(asked.inference, call, scope)
    if found is None or found.op.name != "einsum":
        return
    given = [one for one in call.args if not isinstance(one, ast.Constant)]
    names = {_name(one) for one in given}
    if len(given) > 2 and len(names) < len(given) and None not in names:
        what = (
            f"`{ast.unparse(call)}` adds up as many products as there are pairs"
        )
        yield from kept_apart(asked, call, given, scope, what)


def _quadratic(
    asked: Asked, node: ast.expr, scope: Scope
) -> Iterator[ast.expr]:
    """The products of `s.t() @ adjacency @ s`."""
    inner, right = factors(asked, node, scope)
    within = [node]
    while len(sides := factors(asked, inner, scope)) == 2:
        within.append(inner)
        inner = sides[0]
    if len(within) > 1 and transposed(asked, inner) == (_name(right) or ""):
        yield from within


def kept_apart(
    asked: Asked,
    node: ast.expr,
    given: Iterable[ast.expr],
    scope: Scope,
    what: str,
) -> Iterator[Hazard]:
    """A product that is computed with autocast off, of operands in float32; where it is off
    already, those alone are missing.
    """
    casts = tuple(root for one in given for root in roots(asked, one, scope))
    message = (
        f"{what}: half precision has neither the range nor the digits for that"
    )
    inside = asked.inference.inside(node)
    if casts or inside and _is_lowered(asked, node, scope):
        yield Hazard("loses-precision", node, casts, message, spoils=True)


def _is_lowered(asked: Asked, node: ast.expr, scope: Scope) -> bool:
    """Whether autocast casts the operands, whatever they are."""
    if not isinstance(node, ast.Call):
        return True
    found = spelled(asked.inference, node, scope)
    if found is not None:
        return found.policy == "lower"
    op = _of_layer(asked, node, scope)
    return op is None or op.policy == "lower"


def _of_layer(asked: Asked, call: ast.Call, scope: Scope) -> Op | None:
    """The operator of `nn.AvgPool2d(3, 1)(x)`."""
    name = asked.inference.program.values.of(call.func, scope).name
    row = layers.layer(name)
    return row.op if row is not None else None


def roots(asked: Asked, expr: ast.expr, scope: Scope) -> list[ast.expr]:
    """What is to be float32 so that an operand is computed in float32: of `x * x` its `x`."""
    if isinstance(expr, ast.BinOp) and not isinstance(expr.op, ast.MatMult):
        sides = (
            [expr.left]
            if isinstance(expr.op, ast.Pow)
            else [expr.left, expr.right]
        )
        return [root for side in sides for root in roots(asked, side, scope)]
    return [expr] if asked.needs_cast(expr, scope) else []


# -- differences


def _differences(
    asked: Asked, node: ast.BinOp, scope: Scope
) -> Iterator[Hazard]:
    """`conv(x * x) - mean * mean`, of which all means are computed in float32."""
    first = [
        one
        for one in _means(asked, node.left, scope)
        if _averages_product(asked, *one)
    ]
    factors_of_it = _product_of(asked, node.right, scope)
    sides = [list(_means(asked, *side)) for side in factors_of_it]
    second = [mean for side in sides for mean in side]
    if not first or not second or not all(sides):
        return  # `loss - weight * entropy.mean()` weighs a mean, no more
    what = f"`{ast.unparse(node)}` is a small difference of large numbers"
    for call, home in dict.fromkeys([*first, *second]):
        yield from kept_apart(
            asked, call, _given(asked, call, home), home, what
        )


def _means(
    asked: Asked, expr: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What averages, or sums up, what an expression is: convolutions, products, means, pools."""
    for one, home in origins(asked, expr, scope, _DEEP):
        is_product = isinstance(one, ast.BinOp) and isinstance(
            one.op, ast.MatMult
        )
        if (
            is_product
            or isinstance(one, ast.Call)
            and _is_mean(asked, one, home)
        ):
            yield one, home


def _is_mean(asked: Asked, call: ast.Call, scope: Scope) -> bool:
    if spelled(asked.inference, call, scope) is not None:
        return _is_library_mean(asked, call, scope)
    op = _of_layer(asked, call, scope)
    if op is not None:
        return op.policy == "lower" or op.name in _MEANS
    return any(
        isinstance(one, ast.Call) and _is_library_mean(asked, one, where)
        for value, home in _given_back(asked, call, scope)
        for one, where in origins(asked, value, home, _DEEP)
    )


def _given_back(
    asked: Asked, call: ast.Call, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    """What a function in sight, or a lambda, gives back."""
    program = asked.inference.program
    function = program.values.callee(call, scope)
    if function is not None:
        return [(one, program.scope(function)) for one in returned(function)]
    named = (one for one, _ in values_of(asked, call.func))
    bodies = [one.body for one in named if isinstance(one, ast.Lambda)]
    return [(one, program.module.scope_of(one)) for one in bodies]


def _is_library_mean(asked: Asked, call: ast.Call, scope: Scope) -> bool:
    found = spelled(asked.inference, call, scope)
    if found is None or found.form == "in-place":
        return False
    return found.policy == "lower" or found.op.name in _MEANS


def _averages_product(asked: Asked, node: ast.expr, scope: Scope) -> bool:
    sides = factors(asked, node, scope)
    if len(sides) == 2 and _is_own_transpose(asked, *sides):
        return True
    given = _given(asked, node, scope)[:1]
    return any(True for one in given for _ in _product_of(asked, one, scope))


def _product_of(
    asked: Asked, expr: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """The factors, where an expression is a product or a square."""
    for one, home in origins(asked, expr, scope, _DEEP):
        sides = factors(asked, one, home)
        if len(sides) == 2 and _is_own_transpose(asked, *sides):
            yield from ((side, home) for side in sides)
        elif isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult):
            if (
                number(one.left, home) is None
                and number(one.right, home) is None
            ):
                yield from ((one.left, home), (one.right, home))
        elif isinstance(one, ast.BinOp) and isinstance(one.op, ast.Pow):
            yield from (
                [(one.left, home)] if number(one.right, home) == 2 else []
            )
        elif isinstance(one, ast.Call):
            found = spelled(asked.inference, one, home)
            if found is not None and found.op.name in (*SQUARES, "mul"):
                given = operands(found, one)
                yield from (
                    (factor, home)
                    for factor in given
                    if number(factor, home) is None
                )


def _given(asked: Asked, call: ast.expr, scope: Scope) -> list[ast.expr]:
    """The tensors that an average gets."""
    if not isinstance(call, ast.Call):
        return factors(asked, call, scope)
    found = spelled(asked.inference, call, scope)
    if found is None:
        return [
            one
            for one in call.args
            if not isinstance(one, (ast.Constant, ast.Starred))
        ]
    named = [one.value for one in call.keywords if one.arg in _KEYWORDS]
    return [*operands(found, call), *named]


# -- matrices and their transposes


def factors(asked: Asked, node: ast.AST, scope: Scope) -> list[ast.expr]:
    """The two sides of a product of matrices that autocast computes in half precision."""
    if isinstance(node, ast.BinOp):
        return (
            [node.left, node.right] if isinstance(node.op, ast.MatMult) else []
        )
    found = (
        spelled(asked.inference, node, scope)
        if isinstance(node, ast.Call)
        else None
    )
    if (
        found is None
        or not isinstance(node, ast.Call)
        or not _is_matrix_product(found)
    ):
        return []
    return operands(found, node)


def _is_matrix_product(found: Spelling) -> bool:
    lowers = found.policy == "lower" and found.form != "in-place"
    return lowers and found.op.name in products.OF_TWO


def _is_own_transpose(asked: Asked, left: ast.expr, right: ast.expr) -> bool:
    """`x.t() @ x` sums over the samples, `f @ f.t()` over the pixels where `f` is a flat map."""
    turned = transposed(asked, left)
    if turned is not None and (turned == _name(right) or _is_flat(asked, left)):
        return True
    name = _name(left)
    if name is None or transposed(asked, right) != name:
        return False
    return any(
        method_name(value) in _FLAT for value, _ in values_of(asked, left)
    )


def _is_beside_own(asked: Asked, node: ast.expr, scope: Scope) -> bool:
    """`v.t() @ y` beside `v.t() @ v`: it adds up as many products."""
    turned = transposed(asked, factors(asked, node, scope)[0])
    if turned is None:
        return False
    summed = asked.inference.program.remembered(
        (_is_beside_own, scope, asked.float16), lambda: _own(asked, scope)
    )
    return turned in summed


def _own(asked: Asked, scope: Scope) -> set[str]:
    """What a body multiplies its own transpose with."""
    body = scope.body if isinstance(scope.body, list) else []
    found: set[str] = set()
    for node in (one for statement in body for one in shallow(statement)):
        given = factors(asked, node, scope)
        name = _name(given[-1]) if len(given) == 2 else None
        if name is not None and transposed(asked, given[0]) == name:
            found.add(name)
    return found


def _is_flat(asked: Asked, left: ast.expr) -> bool:
    """`flat.t() @ assigned`, which sums over the pixels where `flat = x.reshape(-1, channels)`."""
    inner = left.func if isinstance(left, ast.Call) else left
    if not isinstance(inner, ast.Attribute):
        return False
    for value, home in values_of(asked, inner.value):
        given = value.args[:1] if isinstance(value, ast.Call) else []
        if method_name(value) not in _FLAT or not given:
            continue
        first = (
            given[0].elts[0] if isinstance(given[0], ast.Tuple) else given[0]
        )
        if number(first, home) == -1:
            return True
    return False


def transposed(asked: Asked, expr: ast.expr) -> str | None:
    """The name of which an expression is the transpose."""
    if method_name(expr) in TURNED:
        inner = expr.func if isinstance(expr, ast.Call) else expr
        assert isinstance(inner, ast.Attribute)
        is_function = isinstance(
            expr, ast.Call
        ) and asked.inference.program.canonical(inner)
        given = (
            expr.args[:1]
            if is_function and isinstance(expr, ast.Call)
            else [inner.value]
        )
        return _name(given[0]) if given else None
    found = values_of(asked, expr) if isinstance(expr, ast.Name) else []
    names = {
        transposed(asked, value)
        for value, _ in found
        if not isinstance(value, ast.Name)
    }
    return names.pop() if len(names) == 1 else None


def _name(expr: ast.expr) -> str | None:
    return (
        ast.unparse(expr)
        if isinstance(expr, (ast.Name, ast.Attribute))
        else None
    )


def origins(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[tuple[ast.expr, Scope]]:
    """What an expression is, behind names, views, divisions and constant factors."""
    if deep == 0:
        return
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Div):
        yield from origins(asked, expr.left, scope, deep - 1)
        return
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Mult):
        for value, other in ((expr.left, expr.right), (expr.right, expr.left)):
            if number(other, scope) is not None:
                yield from origins(asked, value, scope, deep - 1)
                return
    if isinstance(expr, ast.Call) and method_name(expr) in _SHOWN:
        assert isinstance(expr.func, ast.Attribute)
        yield from origins(asked, expr.func.value, scope, deep - 1)
    elif isinstance(expr, (ast.Subscript, ast.UnaryOp)):
        inner = expr.value if isinstance(expr, ast.Subscript) else expr.operand
        yield from origins(asked, inner, scope, deep - 1)
    elif isinstance(expr, (ast.Name, ast.Attribute)):
        for value, home in values_of(asked, expr):
            yield from origins(asked, value, home, deep - 1)
    else:
        yield expr, scope
