"""Tests of a dtype that raise where autocast gives half: `assert out.dtype == torch.float32`,
`if x.dtype not in (torch.float32, torch.float64): raise ...`, branches of which the last raises,
and tables without an entry for half: `KERNELS[x.dtype]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.parameters import arguments
from amp_migrate.torch_facts.amp_api import FLOAT32, HALVES

_HOPS = 3
_SAME = (ast.Eq, ast.Is, ast.In)
_OTHER = (ast.NotEq, ast.IsNot, ast.NotIn)


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The tests and look-ups at `node` that half tensors do not pass."""
    for asks, test in _that_raise(asked, node, scope):
        for tensor, home in tensors(asked, asks, scope, _HOPS):
            if asked.fact(tensor, home).seen_half:
                message = (
                    f"the program demands that `{ast.unparse(tensor)}` is float32, and "
                    "autocast makes it half"
                )
                yield Hazard(
                    "half-outside-autocast", test, (), message, demanded=True
                )


def _that_raise(
    asked: Asked, node: ast.AST, scope: Scope
) -> Iterator[tuple[ast.expr, ast.AST]]:
    """What is asked for its dtype, with the test that only some dtypes pass."""
    if isinstance(node, ast.Assert):
        yield from _compared(asked, node.test, _SAME)
    elif isinstance(node, ast.If):
        if raises(node.body):
            yield from _compared(asked, node.test, _OTHER)
        yield from _of_chain(asked, node)
    elif isinstance(node, ast.Subscript) and _holds_tables(asked):
        known = _keys(asked, node.value)
        if known and _lack_half(known):
            yield node.slice, node


def _of_chain(asked: Asked, node: ast.If) -> Iterator[tuple[ast.expr, ast.AST]]:
    """`if dtype == torch.float32: ... elif dtype == torch.float64: ... else: raise`"""
    tests = [node.test]
    rest = node.orelse
    while len(rest) == 1 and isinstance(rest[0], ast.If):
        tests.append(rest[0].test)
        rest = rest[0].orelse
    if not raises(rest):
        return
    named = {name for test in tests for name in _dtypes(asked, test)}
    if _lack_half(named):
        yield from _compared(asked, node.test, _SAME)


def _compared(
    asked: Asked, test: ast.expr, wanted: tuple[type[ast.cmpop], ...]
) -> Iterator[tuple[ast.expr, ast.AST]]:
    """What a test compares with dtypes of which none is half."""
    for one in ast.walk(test):
        if not isinstance(one, ast.Compare) or len(one.ops) != 1:
            continue
        if isinstance(one.ops[0], wanted) and _lack_half(_dtypes(asked, one)):
            yield from ((side, one) for side in (one.left, *one.comparators))


def raises(body: list[ast.stmt]) -> bool:
    """Whether a branch raises."""
    return any(isinstance(one, ast.Raise) for one in body)


def _dtypes(asked: Asked, test: ast.AST) -> set[str]:
    """The dtypes that a test names."""
    canonical = asked.inference.program.canonical
    names = (
        canonical(one)
        for one in ast.walk(test)
        if isinstance(one, (ast.Name, ast.Attribute))
    )
    return {name for name in names if name in FLOAT32 or name in HALVES}


def _lack_half(named: set[str]) -> bool:
    """Whether float32 is among some dtypes, and no half one."""
    return any(one in FLOAT32 for one in named) and not any(
        one in HALVES for one in named
    )


def _holds_tables(asked: Asked) -> bool:
    """Whether dtypes are keys anywhere in the program."""
    program = asked.inference.program
    shown = (one for one in program.module.parents if isinstance(one, ast.Dict))
    return program.remembered(
        _holds_tables,
        lambda: any(_keys(asked, one) for one in shown),
    )


def _keys(asked: Asked, table: ast.expr) -> set[str]:
    """The dtypes that a table has entries for."""
    program = asked.inference.program
    shown: list[ast.expr | None] = [table]
    if isinstance(table, ast.Name):
        bindings = program.reaching.at(table, table.id).bindings
        shown = [one.value for one in bindings if one.how == "assign"]
    found: set[str] = set()
    for one in shown:
        if not isinstance(one, ast.Dict):
            return set()
        keys = (key for key in one.keys if key is not None)
        found |= {name for key in keys for name in _dtypes(asked, key)}
    return found


def tensors(
    asked: Asked, expr: ast.expr, scope: Scope, hops: int
) -> Iterator[tuple[ast.expr, Scope]]:
    """The tensors whose dtype an expression is: of `x.dtype`, of a variable that holds that, and of
    a parameter that is given it.
    """
    if isinstance(expr, ast.Attribute) and expr.attr == "dtype":
        yield expr.value, scope
    program = asked.inference.program
    if not isinstance(expr, ast.Name) or not hops:
        return
    for binding in program.reaching.at(expr, expr.id).bindings:
        if binding.how == "parameter":
            for given, where in arguments(program, binding):
                yield from tensors(asked, given, where, hops - 1)
        elif (
            binding.value is not None
            and binding.value in program.module.parents
        ):
            where = program.module.scope_of(binding.value)
            yield from tensors(asked, binding.value, where, hops - 1)
