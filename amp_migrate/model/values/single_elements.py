"""Collections that hold one thing: a loop over them has one turn."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.dataflow.sources import held, put_into
from amp_migrate.model.syntax.module import Scope
from amp_migrate.torch_facts.iteration import MAPPING_VIEWS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HANDED_ON = ("enumerate", "list", "tuple", "iter", "reversed", "sorted")
_HOPS = 4


def holds_one(program: Program, listed: ast.expr, scope: Scope) -> bool:
    """Whether what a loop goes through is, for certain, a list, tuple or dict of one element."""
    return _holds_one(program, _base(listed), scope, _HOPS)


def _holds_one(
    program: Program, listed: ast.expr, scope: Scope, hops: int
) -> bool:
    if isinstance(listed, (ast.List, ast.Tuple)):
        return len(listed.elts) == 1 and not isinstance(
            listed.elts[0], ast.Starred
        )
    if isinstance(listed, ast.Dict):
        return len(listed.keys) == 1 and None not in listed.keys
    if not hops or not isinstance(listed, (ast.Name, ast.Attribute)):
        return False
    if next(put_into(program, listed, scope), None) is not None:
        return False
    parts = held(program, listed, scope)
    return bool(parts) and all(
        home is program and _holds_one(program, value, where, hops - 1)
        for home, value, where in parts
    )


def _base(listed: ast.expr) -> ast.expr:
    """`optimizers` of `enumerate(optimizers.values())`."""
    while isinstance(listed, ast.Call):
        func = listed.func
        if isinstance(func, ast.Attribute) and func.attr in MAPPING_VIEWS:
            listed = func.value
        elif isinstance(func, ast.Name) and func.id in _HANDED_ON:
            if not listed.args:
                return listed
            listed = listed.args[0]
        else:
            return listed
    return listed
