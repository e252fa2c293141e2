"""Whether a statement has run where a place is reached: before it in a block around it, or before
the calls of the same object that lead there.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TYPE_CHECKING

from amp_migrate.model.dataflow.body_events import is_of_same_object
from amp_migrate.model.syntax.module import FUNCTIONS, Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 2


def has_run(program: Program, statement: ast.stmt, place: ast.stmt) -> bool:
    """Whether a statement stands before a place, in the same block or in one around it."""
    around = [place, *program.module.ancestors(place)]
    block = program.module.block_of(statement)
    own = next((one for one in block if one in around), None)
    if own is None:
        return False
    before = block.index(statement) < block.index(own)
    return before or statement is own is place


def one_has_run(
    program: Program, statements: Collection[ast.stmt], place: ast.stmt
) -> bool:
    """Whether one of some statements has run: by itself, or since each arm of a branch that has
    run holds one of them.
    """
    done, waiting = {*statements}, [*statements]
    while waiting:
        one = waiting.pop()
        if has_run(program, one, place):
            return True
        branch = program.module.parents.get(one)
        if isinstance(branch, ast.If) and branch not in done:
            arms = (branch.body, branch.orelse)
            if all(not done.isdisjoint(arm) for arm in arms):
                done.add(branch)
                waiting.append(branch)
    return False


def has_run_at_calls(
    program: Program,
    statements: Collection[ast.stmt],
    scope: Scope,
    hops: int = _HOPS,
) -> bool:
    """Whether one of some statements of other methods has run, in each method of the same object
    that leads to `scope`, before the call that does.
    """
    function, entry = scope.node, program.reaching.entry
    if not isinstance(function, FUNCTIONS) or not hops or not statements:
        return False
    sites = entry.sites(function)
    own = all(is_of_same_object(c, s.self_name) for c, s, _ in sites)
    if not sites or not own or not entry.is_followed(function):
        return False
    calls = [(program.module.statement_of(c), s) for c, s, _ in sites]
    return all(
        any(has_run(program, one, call) for one in statements)
        or has_run_at_calls(program, statements, where, hops - 1)
        for call, where in calls
    )


def is_lasting(
    program: Program, text: str, scope: Scope, place: ast.stmt
) -> bool:
    """Whether an attribute of the object is set while that is made, and never again."""
    head, _, rest = text.partition(".")
    bindings = program.reaching.at(place, text).bindings
    if any(one.statement not in program.module.parents for one in bindings):
        return False  # a base class in another file sets it
    homes = [program.module.scope_of(one.statement) for one in bindings]
    return bool(homes and rest and head == scope.self_name) and all(
        isinstance(home.node, FUNCTIONS) and home.node.name == "__init__"
        for home in homes
    )
