"""What the use of a value says of it: no list has `.pow(2)`, so that what may be a list elsewhere
is a tensor where that is called.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.tensors.fact import DType, Fact
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.methods import ONLY_OF_TENSORS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_CONTAINERS = (list, tuple, dict, set, str)
_OF_NUMBERS = (ast.MatMult, ast.Sub, ast.Div, ast.Pow)


def asked_as_tensor(program: Program, expr: ast.expr, fact: Fact) -> Fact:
    """The fact of an expression, which is no container where none will do. Whether the halves were
    those of the container is not told any more.
    """
    if not fact.container:
        return fact
    parent = program.module.parents.get(expr)
    is_called = isinstance(parent, ast.Attribute) and _is_of_tensors(
        parent.attr
    )
    is_reckoned = isinstance(parent, ast.BinOp) and isinstance(
        parent.op, _OF_NUMBERS
    )
    if not (is_called or is_reckoned):
        return fact
    dtypes = fact.dtypes
    if dtypes & DType.HALF:
        dtypes = dtypes & ~DType.HALF | DType.UNKNOWN
    return fact._replace(dtypes=dtypes, container=False, elements=())


def reads(program: Program) -> dict[str, list[ast.Name]]:
    """Where names are read, by name."""

    def found() -> dict[str, list[ast.Name]]:
        known: dict[str, list[ast.Name]] = {}
        for node in program.module.parents:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                known.setdefault(node.id, []).append(node)
        return known

    return program.remembered(reads, found)


def is_no_device(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether `x.shape` or `x - 1` stands in the body that says `y.to(x)`."""
    if not isinstance(expr, ast.Name):
        return False
    parents, home = program.module.parents, program.module.scope_of
    here = (n for n in reads(program).get(expr.id, ()) if home(n) is scope)
    return any(_is_for_tensors(parents[one]) for one in here)


def _is_for_tensors(use: ast.AST) -> bool:
    if isinstance(use, ast.BinOp):
        return isinstance(use.op, _OF_NUMBERS)
    asked = use.attr if isinstance(use, ast.Attribute) else ""
    return asked == "shape" or asked in ONLY_OF_TENSORS


def _is_of_tensors(name: str) -> bool:
    """Whether tensors have a method, and no container of Python."""
    is_known = ops.method(name) is not None
    return is_known and not any(hasattr(one, name) for one in _CONTAINERS)


def set_by_others(expr: ast.expr, scope: Scope) -> list[Binding]:
    """What functions set a name to that they declare `global` or `nonlocal`."""
    home = scope.lookup(expr.id) if isinstance(expr, ast.Name) else None
    if home is None or not isinstance(expr, ast.Name):
        return []
    module = home.module
    return [
        one
        for one in home.bindings[expr.id]
        if one.statement in module.parents
        and one.how in ("assign", "augmented")
        and module.scope_of(one.statement) is not home
    ]
