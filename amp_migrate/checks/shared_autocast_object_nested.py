"""One autocast object is entered while it is already active, so autocast stays on for good."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._regions import is_autocast
from amp_migrate.config import Settings
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, shallow

RULE = Rule("shared-autocast-object-nested", severity="error")
Object = tuple[int, str]
With = ast.With | ast.AsyncWith


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find a second `with` on an object inside a first one, through calls as well."""
    if "autocast" not in program.module.text:
        return
    message = (
        "the object is active already: entered twice it leaves autocast on for the rest of "
        "the thread; make a new one for each `with`"
    )
    uses = list(_uses(program))
    told: set[ast.AST] = set()
    for outer, shared in uses:
        for inner, other in uses:
            if (
                inner is not outer
                and other == shared
                and inner not in told
                and _reaches(program, outer, inner)
            ):
                told.add(inner)
                yield finding_at(
                    program,
                    inner,
                    RULE,
                    message,
                    related=[(outer, "entered here first")],
                )
    for function, decorator in _decorated(program):
        if _calls(program, function, function, set()):
            yield finding_at(program, decorator, RULE, message)


def _object(program: Program, expr: ast.expr, scope: Scope) -> Object | None:
    """The variable behind a name that holds an autocast object."""
    name = dotted_name(expr)
    if name is None:
        return None
    home = scope.lookup(name)
    if "." in name:
        around = program.graph.class_around(scope)
        home = (
            program.module.scopes[around]
            if around is not None and name.partition(".")[0] == scope.self_name
            else None
        )
        name = "self." + name.partition(".")[2]
    bindings = home.bindings.get(name, []) if home is not None else []
    made = bool(bindings) and all(
        b.value is not None and is_autocast(program, b.value) for b in bindings
    )
    return (id(home), name) if made else None


def _uses(program: Program) -> Iterator[tuple[With, Object]]:
    """Each `with` that enters an autocast object which has a name."""
    for node in program.module.parents:
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                found = _object(
                    program, item.context_expr, program.module.scope_of(node)
                )
                if found is not None:
                    yield node, found


def _reaches(program: Program, outer: With, inner: With) -> bool:
    scope = program.module.scope_of(outer)
    if any(
        node is inner for statement in outer.body for node in shallow(statement)
    ):
        return True
    target = program.module.scope_of(inner).node
    return isinstance(target, FUNCTIONS) and any(
        _leads(program, s, scope, target, set()) for s in outer.body
    )


def _leads(
    program: Program,
    node: ast.AST,
    scope: Scope,
    target: Function,
    seen: set[ast.AST],
) -> bool:
    for call in (n for n in shallow(node) if isinstance(n, ast.Call)):
        function = program.values.callee(call, scope)
        if function is target or (
            function is not None and _calls(program, function, target, seen)
        ):
            return True
    return False


def _calls(
    program: Program, function: Function, target: Function, seen: set[ast.AST]
) -> bool:
    if function in seen:
        return False
    seen.add(function)
    scope = program.module.scopes[function]
    return any(
        _leads(program, statement, scope, target, seen)
        for statement in function.body
    )


def _decorated(program: Program) -> Iterator[tuple[Function, ast.expr]]:
    for node, scope in program.module.scopes.items():
        if isinstance(node, FUNCTIONS):
            for decorator in node.decorator_list:
                if (
                    _object(program, decorator, scope.parent or scope)
                    is not None
                ):
                    yield node, decorator
