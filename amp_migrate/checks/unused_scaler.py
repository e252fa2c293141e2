"""A GradScaler is made and never used, beside a loop that trains in float32."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._regions import regions
from amp_migrate.config import Settings
from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.scalers import is_disabled
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.syntax.queries import nodes_in

RULE = Rule("unused-scaler", severity="warning")
_MESSAGE = (
    "nothing uses this scaler, and nothing here runs under autocast: the loop trains in float32; "
    "use both, as `amp-migrate` does, or remove the scaler"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find scalers of a function or an object that nothing reads, where there is a plain loop
    and no region.
    """
    if "GradScaler" not in program.module.text or regions(program):
        return
    events = program.events
    for scope in program.module.scopes.values():
        for call in scope.calls:
            is_made = events.what(call, scope) is EventKind.SCALER_CREATED
            if (
                is_made
                and not is_disabled(call)
                and _is_idle(program, call, scope)
            ):
                yield finding_at(
                    program, call, RULE, _MESSAGE, fix=_fix(program, call)
                )


def _is_idle(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether nothing reads the name that it is kept under, or it is handed to what does not read
    it. One of a module that trains nothing itself may be imported.
    """
    statement = program.module.parents[call]
    if isinstance(statement, ast.IfExp):
        statement = program.module.parents[statement]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    name = dotted_name(statement.targets[0])
    if name is None or name in scope.outer:
        return False
    if program.attributes.is_read(name.rpartition(".")[2]):
        takers = _takers(program, name, scope)
        return any(program.effects.backwards(one) for one in takers)
    loops = [scope] if "." not in name else _family(program, scope)
    return any(program.effects.backwards(one) for one in loops)


def _takers(program: Program, name: str, scope: Scope) -> list[Scope]:
    """The functions that get a local scaler and never look at it; none where it is read."""
    home = scope.lookup(name)
    if home is None or not isinstance(scope.node, FUNCTIONS):
        return []
    found: list[Scope] = []
    reads = [
        node
        for node in program.module.parents
        if isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
    ]
    for read in reads:
        where = program.module.scope_of(read)
        if where.lookup(name) is not home:
            continue  # another variable of that name
        takers = _taking(program, read, where)
        if not takers:
            return []
        found += takers
    return found


def _taking(program: Program, read: ast.Name, scope: Scope) -> list[Scope]:
    """The functions whose parameter gets it and is read nowhere, those of heirs included; none
    where one reads it.
    """
    above = program.module.parents[read]
    call = (
        program.module.parents[above]
        if isinstance(above, ast.keyword)
        else above
    )
    if not isinstance(call, ast.Call) or call.func is read:
        return []
    found = [
        _passes_over(program, call, read, function)
        for function in _run(program, call, scope)
    ]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else []


def _run(program: Program, call: ast.Call, scope: Scope) -> list[Function]:
    """What a call runs; of a method of its own, those of the heirs in sight."""
    callee = program.values.callee(call, scope)
    if callee is None:
        return []
    owner = program.scope(callee).owner
    if owner is None or not isinstance(owner.node, ast.ClassDef):
        return [callee]
    made = (
        program.graph.method(heir, callee.name)
        for heir in program.graph.heirs(owner.node)
    )
    return list(dict.fromkeys([callee, *(one for one in made if one)]))


def _passes_over(
    program: Program, call: ast.Call, read: ast.Name, function: Function
) -> Scope | None:
    inner = program.scope(function)
    own = [
        one.arg
        for one in inner.parameters()
        if argument(call, inner, one.arg, inner.takes_receiver) is read
    ]
    is_read = any(
        isinstance(node, ast.Name)
        and node.id in own
        and isinstance(node.ctx, ast.Load)
        for statement in function.body
        for node in nodes_in(statement)
    )
    return inner if own and not is_read else None


def _family(program: Program, scope: Scope) -> list[Scope]:
    """The methods of the class that keeps the scaler."""
    cls = program.graph.class_around(scope)
    scopes = program.module.scopes.values()
    return [
        one
        for one in scopes
        if cls is not None and program.graph.class_around(one) is cls
    ]


def _fix(program: Program, call: ast.Call) -> Fix:
    code = Code(program, call)
    return Fix("unsafe", "remove the scaler", (code.remove(code.statement),))
