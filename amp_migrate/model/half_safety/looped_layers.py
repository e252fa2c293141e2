"""Layers of a `nn.ModuleList` that a loop runs one behind the other:
`for layer in self.layers: x = layer(x)`. What is behind the loop is what the last one gives.
"""

from __future__ import annotations

import ast

from amp_migrate.model.forwards.sequence_calls import made_of
from amp_migrate.model.forwards.sequence_ends import ends
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope


def run_by_loop(
    program: Program, expr: ast.expr, scope: Scope
) -> tuple[ast.Call, list[ast.expr | None]] | None:
    """The call of each layer, and those that may be the last one, where a name behind such a loop
    holds what that gives.
    """
    if not isinstance(expr, ast.Name):
        return None
    for binding in program.reaching.at(expr, expr.id).bindings:
        loop = program.module.parents.get(binding.statement)
        if not isinstance(loop, ast.For) or loop.orelse:
            continue
        call = _handed_on(loop)
        if call is not None and _is_behind(program, expr, loop):
            made = made_of(program, gone_through(loop.iter), scope)
            last = [one for each in made for one in ends(program, each)]
            return (call, last) if last else None
    return None


def _handed_on(loop: ast.For) -> ast.Call | None:
    """`layer(x)`, where all that a loop over layers does is `x = layer(x)`."""
    only = loop.body[0] if len(loop.body) == 1 else None
    call = only.value if isinstance(only, ast.Assign) else None
    if not isinstance(only, ast.Assign) or not isinstance(call, ast.Call):
        return None
    if len(call.args) != 1 or call.keywords or len(only.targets) != 1:
        return None
    is_same = _name(only.targets[0]) == _name(call.args[0]) is not None
    layer = loop.target
    if isinstance(layer, ast.Tuple) and _is_counted(loop.iter):
        layer = layer.elts[-1]
    runs = _name(call.func) == _name(layer) is not None
    return call if is_same and runs else None


def _is_counted(iterable: ast.expr) -> bool:
    """`enumerate(layers)`"""
    counts = iterable.func if isinstance(iterable, ast.Call) else iterable
    return counts is not iterable and _name(counts) == "enumerate"


def gone_through(iterable: ast.expr) -> ast.expr:
    """The `layers` of `enumerate(layers)`."""
    counted = isinstance(iterable, ast.Call) and _is_counted(iterable)
    given = iterable.args if isinstance(iterable, ast.Call) else []
    return given[0] if counted and given else iterable


def _name(expr: ast.expr) -> str | None:
    return expr.id if isinstance(expr, ast.Name) else None


def _is_behind(program: Program, expr: ast.expr, loop: ast.For) -> bool:
    """Whether what is read was given by the loop: it stands in its block, behind it, and nothing
    else gives the name a value between them.
    """
    module = program.module
    above = [module.statement_of(expr), *module.ancestors(expr)]
    block = module.block_of(loop)
    behind = [one for one in block[block.index(loop) + 1 :] if one in above]
    names = program.reaching.at(expr, _name(expr) or "").bindings
    return bool(behind) and all(
        one.statement in loop.body or _line(one.statement) < loop.lineno
        for one in names
    )


def _line(statement: ast.AST) -> int:
    return getattr(statement, "lineno", 0)
