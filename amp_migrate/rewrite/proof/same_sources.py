"""Two values that are computed of the same: `x[..., 1:]` and `x[..., :-1]` are tensors if `x` is
one, and arrays if it is an array.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.values.literals import number

_DEEP = 4
Source: TypeAlias = tuple[str, tuple[Binding, ...]]


def have_one_source(
    program: Program, one: ast.expr, other: ast.expr, scope: Scope
) -> bool:
    """Whether arithmetic and slices make `other` of nothing but what they make `one` of, and of
    numbers: then `one` is a tensor if anything that the two are made of is.
    """
    own, others = (
        set(_sources(program, side, scope, _DEEP)) for side in (one, other)
    )
    return bool(own) and others <= own and None not in own


def is_sliced(taken: ast.Subscript) -> bool:
    """`x[..., 1:]`, `x[:, None]`: no list, tuple or dict has that."""
    parts = taken.slice.elts if isinstance(taken.slice, ast.Tuple) else ()
    return any(
        isinstance(one, ast.Slice)
        or isinstance(one, ast.Constant)
        and one.value in (None, ...)
        for one in parts
    )


def _sources(
    program: Program, expr: ast.expr, scope: Scope, deep: int
) -> Iterator[Source | None]:
    """The names that a value is made of; None where more than that makes it."""
    if number(expr, scope) is not None:
        return
    if isinstance(expr, ast.BinOp):
        yield from _sources(program, expr.left, scope, deep)
        yield from _sources(program, expr.right, scope, deep)
    elif isinstance(expr, ast.UnaryOp):
        yield from _sources(program, expr.operand, scope, deep)
    elif isinstance(expr, ast.Subscript) and is_sliced(expr):
        yield from _sources(program, expr.value, scope, deep)
    elif isinstance(expr, ast.Call) and (cast := _cast(expr)) is not None:
        yield from _sources(program, cast, scope, deep)
    elif isinstance(expr, ast.Name):
        yield from _of_name(program, expr, scope, deep)
    else:
        yield None


def _cast(call: ast.Call) -> ast.expr | None:
    """`x` of `x.float()`: what is to be proved, where the original has `x`."""
    func = call.func
    is_cast = isinstance(func, ast.Attribute) and func.attr == "float"
    plain = is_cast and not call.args and not call.keywords
    return func.value if plain and isinstance(func, ast.Attribute) else None


def _of_name(
    program: Program, name: ast.Name, scope: Scope, deep: int
) -> Iterator[Source | None]:
    """What a name is assigned once, else the name itself."""
    bindings = program.reaching.at(name, name.id).bindings
    made = _assigned(bindings[0]) if len(bindings) == 1 else None
    if deep and isinstance(made, (ast.BinOp, ast.UnaryOp, ast.Subscript)):
        yield from _sources(program, made, scope, deep - 1)
    else:
        yield (name.id, bindings) if bindings else None


def _assigned(binding: Binding) -> ast.expr | None:
    """All of what a statement assigns to one name."""
    whole = binding.how == "assign" and binding.index is None
    return binding.value if whole else None
