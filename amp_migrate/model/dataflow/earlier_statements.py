"""Whether a statement has run where a place is reached: before it in a block around it, or before
the calls of the same object that lead there.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.dataflow.body_events import is_of_same_object
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.syntax.queries import nodes_in

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
    known = [*statements, *_calls_that_run(program, statements)]
    return all(
        any(has_run(program, one, call) for one in known)
        or has_run_at_calls(program, statements, where, hops - 1)
        for call, where in calls
    )


def _calls_that_run(
    program: Program, statements: Collection[ast.stmt]
) -> Iterator[ast.stmt]:
    """Statements that call a method of their own object, which runs one of some statements whatever
    its arguments are: `self.model = self.build()` for a move in `build`.
    """
    module = program.module
    for one in statements:
        home = module.scope_of(one)
        method = home.node
        if isinstance(method, FUNCTIONS) and _always_runs(home, one):
            for call, caller, _ in program.reaching.entry.sites(method):
                statement = module.statement_of(call)
                if isinstance(statement, ast.Assign | ast.Expr) and (
                    statement.value is call
                    and is_of_same_object(call, caller.self_name)
                    and _runs_only(program, method, caller)
                ):
                    yield statement


def _always_runs(home: Scope, statement: ast.stmt) -> bool:
    """Whether a call of a function runs one of its statements before it comes back."""
    body = home.body
    if statement not in body or not isinstance(home.node, ast.FunctionDef):
        return False
    before = body[: body.index(statement)]
    is_generator = any(
        isinstance(node, ast.Yield | ast.YieldFrom)
        for one in body
        for node in nodes_in(one)
    )
    return not is_generator and not any(
        isinstance(node, ast.Return) for one in before for node in nodes_in(one)
    )


def _runs_only(program: Program, method: Function, caller: Scope) -> bool:
    """Whether no heir of a caller's class puts another method in the place of this one."""
    graph = program.graph
    cls = graph.class_around(caller)
    return cls is not None and all(
        graph.method(one, method.name) is method
        for one in (cls, *graph.heirs(cls))
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
