"""Values that are half precision, or float32, in the first round of a loop, whatever later rounds
make of them: what raises on that raises then. So do those behind a loop over layers, and those
that were put on a list.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.dataflow.sources import put_into
from amp_migrate.model.syntax.module import LOOPS, Binding, Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.parameters import arguments
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts import layers

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 6
_LEAVES = (ast.Break, ast.Continue)
_Test: TypeAlias = "Callable[[Program, ast.expr, Scope], bool]"


def half_at_first(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether a value is half for certain, always or when the loops around begin; of a parameter,
    in one of the calls in sight.
    """
    return _at_first(program, expr, scope, is_half, _HOPS)


def float_at_first(
    program: Program,
    expr: ast.expr,
    scope: Scope,
) -> bool:
    """Whether a value is float32 for certain, in the same way."""
    return _at_first(program, expr, scope, is_float, _HOPS)


def is_half(
    program: Program,
    expr: ast.expr,
    scope: Scope,
) -> bool:
    """Whether a value is half for certain, whenever it is asked for."""
    return program.precision.half(expr, scope) is not None


def is_float(
    program: Program,
    expr: ast.expr,
    scope: Scope,
) -> bool:
    """Whether a value is float32 for certain, whenever it is asked for."""
    return program.precision.of(expr, scope).dtypes == DType.FLOAT


def _at_first(
    program: Program, expr: ast.expr, scope: Scope, test: _Test, hops: int
) -> bool:
    if test(program, expr, scope):
        return True
    if not hops:
        return False
    taken = _taken_from(expr, scope)
    if taken is not None:
        return _holds(program, taken, scope, test, hops - 1)
    like = _modelled_on(program, expr, scope)
    if like is not None:
        return _at_first(program, like, scope, test, hops - 1)
    if not isinstance(expr, ast.Name):
        return False
    found = list(program.reaching.at(expr, expr.id).bindings)
    found = _without_earlier(program, expr, found)
    if len(found) > 1:
        found = _first(program, expr, found)
    return len(found) == 1 and _gives(program, found[0], test, hops - 1)


def _modelled_on(
    program: Program, expr: ast.expr, scope: Scope
) -> ast.expr | None:
    """The tensor whose type `torch.zeros_like(x)` has."""
    if not isinstance(expr, ast.Call):
        return None
    found = spelled(program.precision.inference, expr, scope)
    if found is None or found.op.result != "like":
        return None
    given = operands(found, expr)
    is_told = any(one.arg == "dtype" for one in expr.keywords)
    return given[0] if given and not is_told else None


def _taken_from(expr: ast.expr, scope: Scope) -> ast.Name | None:
    """The list of `held.pop()` and `held[-1]`."""
    match expr:
        case ast.Call(func=ast.Attribute(value=ast.Name() as held, attr="pop")):
            return held
        case ast.Subscript(value=ast.Name() as held):
            return held if number(expr.slice, scope) is not None else None
        case _:
            return None


def _holds(
    program: Program, held: ast.Name, scope: Scope, test: _Test, hops: int
) -> bool:
    """Whether all that is on a list, which begins empty, is so."""
    bindings = program.reaching.at(held, held.id).bindings
    is_new = all(_is_empty(one.value) for one in bindings)
    parts = list(put_into(program, held, scope)) if bindings and is_new else []
    return bool(parts) and all(
        home is program and _at_first(home, one, where, test, hops)
        for home, one, where in parts
    )


def _is_empty(value: ast.expr | None) -> bool:
    return isinstance(value, ast.List) and not value.elts


def _without_earlier(
    program: Program, use: ast.Name, bindings: list[Binding]
) -> list[Binding]:
    """The bindings without those that a loop over layers has replaced before the use."""
    module = program.module
    for one in bindings:
        loop = module.parents.get(one.statement)
        if (
            not isinstance(loop, ast.For)
            or loop in module.ancestors(use)
            or one.statement not in loop.body
            or any(isinstance(n, _LEAVES) for n in ast.walk(loop))
            or not _follows(program, loop, use)
            or not _has_turns(program, loop)
        ):
            continue
        return [b for b in bindings if not _is_before(program, b, loop)]
    return bindings


def _follows(
    program: Program,
    loop: ast.For,
    use: ast.Name,
) -> bool:
    """Whether the use stands behind a loop, in the same block or deeper."""
    block = program.module.block_of(loop)
    behind = block[block.index(loop) + 1 :]
    above = {program.module.statement_of(use), *program.module.ancestors(use)}
    return any(one in above for one in behind)


def _is_before(
    program: Program,
    binding: Binding,
    loop: ast.For,
) -> bool:
    if binding.how == "parameter":
        return True
    return program.module.statement_of(binding.statement).lineno < loop.lineno


def _has_turns(program: Program, loop: ast.For) -> bool:
    """Whether a loop goes through the layers of a `ModuleList`, which is made to be run."""
    scope = program.module.scope_of(loop)
    if not isinstance(loop.iter, (ast.Name, ast.Attribute)):
        return False
    row = layers.layer(program.values.of(loop.iter, scope).name or "")
    return row is not None and row.role == "container"


def _first(
    program: Program, use: ast.Name, bindings: list[Binding]
) -> list[Binding]:
    """Those of the bindings that reach the first round: the others stand in the loop around, not
    before the use.
    """
    module = program.module
    loop = next(
        (n for n in module.ancestors(use) if isinstance(n, LOOPS)), None
    )
    if loop is None:
        return []
    inside = [b for b in bindings if loop in module.ancestors(b.statement)]
    here = module.statement_of(use).lineno
    if any(module.statement_of(b.statement).lineno < here for b in inside):
        return []
    return [one for one in bindings if one not in inside]


def _gives(
    program: Program,
    binding: Binding,
    test: _Test,
    hops: int,
) -> bool:
    if binding.how == "parameter":
        return any(
            _at_first(program, given, where, test, hops)
            for given, where in arguments(program, binding)
        )
    value = binding.value
    if binding.how != "assign" or value is None:
        return False
    scope = program.module.scope_of(value)
    return _at_first(program, value, scope, test, hops)
