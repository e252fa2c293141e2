"""Backward passes inside the region that a framework opens: `with accelerator.autocast():` around
`accelerator.backward(loss)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.autocast.frameworks import names_framework
from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.torch_facts.frameworks import FRAMEWORKS

_MAKERS = frozenset[str]().union(*(one.makers for one in FRAMEWORKS))
_HOPS = 3


def framework_backwards(
    program: Program,
) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The calls of backward, each with the call that opens the region around it."""
    text = program.module.text
    if ".autocast()" not in text or not names_framework(text):
        return
    for node in program.module.parents:
        if not isinstance(node, ast.With):
            continue
        for opened, receiver in _opened(program, node):
            for statement in node.body:
                for call in calls_in(statement):
                    if _is_backward(call, receiver):
                        yield call, opened


def _opened(
    program: Program, region: ast.With
) -> Iterator[tuple[ast.Call, str]]:
    scope = program.module.scope_of(region)
    for item in region.items:
        call = item.context_expr
        if not isinstance(call, ast.Call) or not isinstance(
            call.func, ast.Attribute
        ):
            continue
        name = dotted_name(call.func.value)
        if call.func.attr == "autocast" and name is not None:
            if _is_made(program, call.func.value, scope, _HOPS):
                yield call, name


def _is_made(
    program: Program,
    expr: ast.expr,
    scope: Scope,
    hops: int,
) -> bool:
    """Whether all that a name may hold is a framework's."""
    found = held(program, expr, scope) if hops else ()
    return bool(found) and all(
        home.canonical(one.func) in _MAKERS
        if isinstance(one, ast.Call)
        else _is_made(home, one, where, hops - 1)
        for home, one, where in found
    )


def _is_backward(
    call: ast.Call,
    receiver: str,
) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "backward":
        return False
    return dotted_name(func.value) == receiver
