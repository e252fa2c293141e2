"""Tests that raise where a tensor has another dtype than a variable names, or than another tensor:
`dtype = torch.float16 if self.use_fp16 else torch.float32`, `assert out.dtype == dtype`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import default_of
from amp_migrate.model.conditions.arms import never_runs
from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.origins import values_of
from amp_migrate.model.half_safety.shared_dtypes import (
    is_turned_to,
    share_dtype,
)
from amp_migrate.model.half_safety.tested_dtypes import raises, tensors
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.torch_facts.amp_api import FLOAT32

_HOPS = 3


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The tests at `node` that a tensor does not pass which autocast makes half."""
    for test in _equalities(node):
        left, right = test.left, test.comparators[0]
        for side, other in ((left, right), (right, left)):
            for tensor, home in tensors(asked, side, scope, _HOPS):
                if _differs(asked, (tensor, home), (other, scope), _HOPS):
                    message = (
                        f"the program demands that `{ast.unparse(side)}` is "
                        f"`{ast.unparse(other)}`, which may be float32, and "
                        f"autocast makes `{ast.unparse(tensor)}` half"
                    )
                    yield Hazard(
                        "half-outside-autocast",
                        test,
                        (),
                        message,
                        demanded=True,
                    )


def _equalities(node: ast.AST) -> Iterator[ast.Compare]:
    """The comparisons of which the program demands that both sides are the same."""
    wanted: tuple[type[ast.cmpop], ...] = ()
    if isinstance(node, ast.Assert):
        wanted = (ast.Eq, ast.Is)
    elif isinstance(node, ast.If) and raises(node.body):
        wanted = (ast.NotEq, ast.IsNot)
    if not isinstance(node, (ast.Assert, ast.If)):
        return
    for one in ast.walk(node.test):
        if isinstance(one, ast.Compare) and len(one.ops) == 1:
            if isinstance(one.ops[0], wanted):
                yield one


def _differs(
    asked: Asked,
    tensor: tuple[ast.expr, Scope],
    wanted: tuple[ast.expr, Scope],
    hops: int,
) -> bool:
    """Whether a tensor that is half may be compared with another dtype by `wanted`."""
    expr, scope = wanted
    if not asked.fact(*tensor).seen_half:
        return False
    name = asked.inference.program.canonical(expr) or ""
    if name.startswith("torch."):
        is_written = hops == _HOPS  # which the tests of literals see
        return name in FLOAT32 and not is_written
    if isinstance(expr, ast.Constant):
        return False
    if isinstance(expr, ast.IfExp):
        arms = [
            one
            for one in (expr.body, expr.orelse)
            if not never_runs(asked.inference.program, one)
        ]
        return any(
            _differs(asked, tensor, (one, scope), hops - 1) for one in arms
        )
    if (owner := _owner(asked, expr, scope)) is not None:
        return _is_unlike(asked, tensor, (owner, scope))
    if not isinstance(expr, (ast.Name, ast.Attribute)) or not hops:
        return True
    if is_turned_to(asked, tensor[0], expr):
        return False
    given = [*values_of(asked, expr), *_default(expr, scope)]
    return not given or any(
        _differs(asked, tensor, one, hops - 1) for one in given
    )


def _owner(asked: Asked, expr: ast.expr, scope: Scope) -> ast.expr | None:
    """`x` of `x.dtype`, where it is a tensor; `self.dtype` is an attribute like another."""
    if not isinstance(expr, ast.Attribute) or expr.attr != "dtype":
        return None
    held = asked.fact(expr.value, scope)
    return None if held.is_no_tensor else expr.value


def _is_unlike(
    asked: Asked, one: tuple[ast.expr, Scope], other: tuple[ast.expr, Scope]
) -> bool:
    """Whether the other tensor may be float32 where this one is half."""
    if share_dtype(asked, one[0], other[0]):
        return False
    mine, its = asked.fact(*one).dtypes, asked.fact(*other).dtypes
    return mine != its and bool(its & (DType.FLOAT | DType.UNKNOWN))


def _default(expr: ast.expr, scope: Scope) -> list[tuple[ast.expr, Scope]]:
    """What a parameter holds that no argument is given for."""
    if not isinstance(expr, ast.Name):
        return []
    if not isinstance(scope.node, (*FUNCTIONS, ast.Lambda)):
        return []
    found = default_of(scope.node, expr.id)
    return [] if found is None else [(found, scope)]
