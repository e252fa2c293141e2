"""Arrays of places by which tensors are written, and what is written there: stretches of an order,
`for rows in [order[i : i + n] for i in starts]`, and outputs of models.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.origins import method_name, values_of
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope, returned
from amp_migrate.torch_facts.methods import ARRAYS_BY_INDEX

_DEEP = 4
_LISTS = (ast.List, ast.ListComp)


def index_parts(index: ast.expr) -> Iterator[ast.expr]:
    """`rows` and `1` of `rows + 1`: with an array it is an array."""
    if isinstance(index, ast.BinOp):
        yield from index_parts(index.left)
        yield from index_parts(index.right)
    else:
        yield index


def is_list_of_places(asked: Asked, index: ast.expr) -> bool:
    """`out[..., [0, 2]]` and `out[..., np.r_[:2, 4:6]]` are written as by a tensor."""
    if isinstance(index, ast.Subscript):
        maker = asked.inference.program.canonical(index.value)
        return maker in ARRAYS_BY_INDEX
    if isinstance(index, (ast.Name, ast.Attribute)):
        values = [one for one, _ in values_of(asked, index)]
        return bool(values) and all(isinstance(one, _LISTS) for one in values)
    return isinstance(index, _LISTS)


def is_stretch(asked: Asked, index: ast.expr) -> bool:
    """Whether a loop gives a name parts of an array, rather than its numbers."""
    if not isinstance(index, ast.Name):
        return False
    program = asked.inference.program
    return any(
        one.how == "for"
        and one.index is None
        and one.value is not None
        and _holds_stretches(
            asked, one.value, program.module.scope_of(one.value), _DEEP
        )
        for one in program.reaching.at(index, index.id).bindings
    )


def _holds_stretches(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int
) -> bool:
    program = asked.inference.program
    if isinstance(expr, (ast.ListComp, ast.GeneratorExp)):
        part = expr.elt
        return isinstance(part, ast.Subscript) and isinstance(
            part.slice, ast.Slice
        )
    values: list[tuple[ast.expr, Scope]] = []
    if isinstance(expr, ast.Call):
        for function in program.values.callees(expr, scope):
            inner = program.scope(function)
            values += [(one, inner) for one in returned(function)]
    elif isinstance(expr, (ast.Name, ast.Attribute)):
        values = values_of(asked, expr)
    return deep > 0 and any(
        _holds_stretches(asked, one, where, deep - 1) for one, where in values
    )


def is_output(
    asked: Asked, expr: ast.expr, scope: Scope, deep: int = _DEEP
) -> bool:
    """Whether a value, or `x.detach()` of it, is what a model gives."""
    if deep == 0:
        return False
    if isinstance(expr, ast.Call):
        program = asked.inference.program
        if program.effects.forward_of(expr, scope) & EventKind.FORWARD:
            return True
        if method_name(expr) not in ("detach", "clone", "squeeze"):
            return False
        assert isinstance(expr.func, ast.Attribute)
        return is_output(asked, expr.func.value, scope, deep - 1)
    return any(
        is_output(asked, one, where, deep - 1)
        for one, where in values_of(asked, expr, parts=True)
    )
