"""The scaler's state is loaded, and then a new scaler takes its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope

RULE = Rule("scaler-rebuilt-after-restore", severity="warning")
_HOPS = 3
"""Methods of methods that are looked into for a load."""


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find scalers made over one whose state was loaded on every path before."""
    if "load_state_dict" not in program.module.text:
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.events.what(call, scope) is EventKind.SCALER_CREATED:
                statement = program.module.parents[call]
                if isinstance(statement, ast.Assign):
                    yield from _rebuilt(program, call, statement, scope)


_MESSAGE = (
    "the state that was loaded is lost: a new scaler takes the place of the restored "
    "one; make it first, then load"
)


def _rebuilt(
    program: Program, call: ast.Call, statement: ast.Assign, scope: Scope
) -> Iterator[Finding]:
    """The finding at one scaler, if its like was loaded before."""
    name = dotted_name(statement.targets[0])
    if name is None:
        return
    load = _load_before(program, statement, name, scope)
    place = load or _load_by_caller(program, name, scope)
    if place is None:
        return
    # A load that is asked for: nothing may have made a scaler before.
    is_sure = load is not None and _loads(program, load, name, scope)
    keep = (Code(program, statement).remove(statement),) if is_sure else ()
    fix = Fix("unsafe", "keep the restored scaler", keep) if is_sure else None
    related = [(place, "loaded here")]
    yield finding_at(program, call, RULE, _MESSAGE, related=related, fix=fix)


def _load_by_caller(
    program: Program, name: str, scope: Scope
) -> ast.Call | None:
    """A call of a method that loads the state, before one of the method that makes the scaler, on
    the same object.
    """
    cls = program.graph.class_around(scope)
    maker = scope.node
    if (
        cls is None
        or not isinstance(maker, FUNCTIONS)
        or maker.name == "__init__"
    ):
        return None
    if not name.startswith(f"{scope.self_name}."):
        return None
    loaders = [
        node
        for node in cls.body
        if isinstance(node, FUNCTIONS)
        and node is not maker
        and _is_loader(program, node, name)
    ]
    for loader in loaders:
        for load in program.graph.sites(loader):
            makes = program.graph.sites(maker)
            is_later = any(make.scope is not load.scope for make in makes)
            if _constructs(program, load.scope, cls) and (
                is_later or not makes
            ):
                return load.call
            for make in makes:
                if load.scope is make.scope and _precedes(
                    program, load.call, make.call
                ):
                    return load.call
    return None


def _constructs(program: Program, scope: Scope, cls: ast.ClassDef) -> bool:
    """Whether it is the constructor of the class, which runs before any other method."""
    own = program.graph.class_around(scope) is cls
    return (
        own
        and isinstance(scope.node, FUNCTIONS)
        and scope.node.name == "__init__"
    )


def _is_loader(program: Program, function: Function, name: str) -> bool:
    scope = program.scope(function)
    own = f"{scope.self_name}.{name.partition('.')[2]}"
    return any(_loads(program, s, own, scope) for s in function.body)


def _precedes(program: Program, first: ast.Call, then: ast.Call) -> bool:
    """Whether one call of a method comes before another of the same object, in one block."""
    if not isinstance(first.func, ast.Attribute) or not isinstance(
        then.func, ast.Attribute
    ):
        return False
    holder = dotted_name(first.func.value)
    if holder is None or holder != dotted_name(then.func.value):
        return False
    code = Code(program, then)
    before = code.before(code.statement)
    return any(program.module.statement_of(first) is one for one in before)


def _load_before(
    program: Program, statement: ast.stmt, name: str, scope: Scope
) -> ast.stmt | None:
    code = Code(program, statement)
    here: ast.AST = statement
    while isinstance(here, ast.stmt) and here is not scope.node:
        for earlier in code.before(here):
            if _loads(program, earlier, name, scope):
                return earlier
            if here is statement and _may_load(program, earlier, name, scope):
                return earlier
        here = program.module.parents[here]
    return None


def _may_load(
    program: Program,
    statement: ast.stmt,
    name: str,
    scope: Scope,
    hops: int = _HOPS,
) -> bool:
    """`if resume: self.load(resume)`, itself or in methods of the same object: what is restored is
    lost whenever it is.
    """
    if isinstance(statement, ast.If):
        return any(
            _may_load(program, one, name, scope, hops)
            for one in (*statement.body, *statement.orelse)
        )
    if _loads(program, statement, name, scope):
        return True
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not hops or not _is_call_of_self(statement, scope):
        return False
    assert isinstance(call, ast.Call)
    function = program.values.callee(call, scope)
    if not isinstance(function, FUNCTIONS) or not name.startswith("self."):
        return False
    inner = program.module.scopes[function]
    return any(
        _may_load(program, one, name, inner, hops - 1) for one in function.body
    )


def _loads(
    program: Program, statement: ast.stmt, name: str, scope: Scope
) -> bool:
    """Whether the statement loads the state of `name`, itself or in a method of the same object."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(
        call.func, ast.Attribute
    ):
        return False
    if (
        call.func.attr == "load_state_dict"
        and dotted_name(call.func.value) == name
    ):
        return True
    holder = call.func.value
    if (
        not name.startswith("self.")
        or not isinstance(holder, ast.Name)
        or holder.id != scope.self_name
    ):
        return False
    function = program.values.callee(call, scope)
    if not isinstance(function, FUNCTIONS):
        return False
    inner = program.module.scopes[function]
    return any(
        _loads(program, s, name, inner)
        for s in function.body
        if not _is_call_of_self(s, inner)
    )


def _is_call_of_self(statement: ast.stmt, scope: Scope) -> bool:
    """Methods of methods are not followed."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.value.id == scope.self_name
    )
