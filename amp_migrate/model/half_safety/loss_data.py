"""Losses that multiply matrices of their own: bases of shapes, cameras, statistics of a dataset.

Such data come out of files, in whatever unit, and bring what a network gives to its scale: nothing
keeps it below 65504, or the digits of what is subtracted afterwards.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.forwards.loss_modules import holds_nothing
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.half_safety.second_moments import factors, kept_apart
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.spelling import spelled

_DEEP = 3


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """Products of matrices in a loss without parameters, of which one is such data."""
    given = factors(asked, node, scope)
    if not isinstance(node, ast.expr) or len(given) != 2:
        return
    program = asked.inference.program
    cls = program.graph.class_around(scope)
    if cls is None or not program.remembered(
        ("holds nothing", cls), lambda: holds_nothing(program, cls)
    ):
        return
    own = next(
        (
            found
            for side in given
            for found in _data(asked, side, scope, cls, _DEEP)
        ),
        None,
    )
    if own is not None:
        what = f"`{own}` may be in any unit"
        yield from kept_apart(asked, node, given, scope, what)


def _data(
    asked: Asked, expr: ast.expr, scope: Scope, cls: ast.ClassDef, deep: int
) -> Iterator[str]:
    """The attributes of the loss that an operand is made of, and that no operator of torch made;
    not those of a model, which may be what calls it.
    """
    is_own = asked.inference.program.graph.class_around(scope) is cls
    for node in nodes_in(expr):
        if isinstance(node, ast.Name) and deep:
            for value, home in values_of(asked, node):
                yield from _data(asked, value, home, cls, deep - 1)
        name = dotted_name(node) if isinstance(node, ast.Attribute) else None
        own = (
            is_own
            and name is not None
            and name.partition(".")[0] == scope.self_name
        )
        if own and name is not None and _is_given(asked, node, name):
            yield name


def _is_given(asked: Asked, node: ast.AST, name: str) -> bool:
    """Whether an attribute is data from outside: no number, and nothing that torch makes anew."""
    program = asked.inference.program
    if not isinstance(node, ast.Attribute):
        return False
    bindings = program.reaching.at(node, name).bindings
    return any(_is_outside(asked, one) for one in bindings)


def _is_outside(asked: Asked, binding: Binding) -> bool:
    if not isinstance(binding.value, ast.Call):
        return False
    scope = asked.inference.program.module.scope_of(binding.statement)
    return any(
        _brings_data(asked, node, scope) for node in nodes_in(binding.value)
    )


def _brings_data(asked: Asked, node: ast.AST, scope: Scope) -> bool:
    """`torch.from_numpy(base)`, `load(path)`; no literal, and nothing that torch makes anew."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name) and scope.lookup(node.func.id) is None:
        return False
    found = spelled(asked.inference, node, scope)
    if found is not None and found.op.result != "data":
        return False
    return any(
        isinstance(inner, (ast.Name, ast.Call, ast.Attribute))
        for given in node.args
        for inner in nodes_in(given)
    )
