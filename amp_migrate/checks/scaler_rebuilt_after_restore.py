"""The scaler's state is loaded, and then a new scaler takes its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.config import Settings
from amp_migrate.lint.finding import Finding, Fix, Rule, finding_at
from amp_migrate.model.mistakes import events_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Scope
from amp_migrate.names import dotted_name

RULE = Rule("scaler-rebuilt-after-restore", severity="warning")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Ask for scalers made over one whose state was loaded on every path before."""
    if "load_state_dict" not in program.module.text:
        return
    message = (
        "the state that was loaded is lost: a new scaler takes the place of the restored one; make it first, then load"
    )
    for scope in program.module.scopes.values():
        for call in scope.calls:
            statement = program.module.parents[call]
            if not isinstance(statement, ast.Assign) or events_of(program).what(call, scope) != "created":
                continue
            name = dotted_name(statement.targets[0])
            load = _load_before(program, statement, name, scope) if name is not None else None
            if load is not None:
                fix = Fix("unsafe", "keep the restored scaler", (Code(program, statement).remove(statement),))
                yield finding_at(program, call, RULE, message, related=[(load, "loaded here")], fix=fix)


def _load_before(program: Program, statement: ast.stmt, name: str, scope: Scope) -> ast.stmt | None:
    code = Code(program, statement)
    here: ast.AST = statement
    while isinstance(here, ast.stmt) and here is not scope.node:
        for earlier in code.before(here):
            if _loads(program, earlier, name, scope):
                return earlier
        here = program.module.parents[here]
    return None


def _loads(program: Program, statement: ast.stmt, name: str, scope: Scope) -> bool:
    """Whether the statement loads the state of `name`, itself or in a method of the same object."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "load_state_dict" and dotted_name(call.func.value) == name:
        return True
    holder = call.func.value
    if not name.startswith("self.") or not isinstance(holder, ast.Name) or holder.id != scope.self_name:
        return False
    function = program.values.callee(call, scope)
    if not isinstance(function, FUNCTIONS):
        return False
    inner = program.module.scopes[function]
    return any(_loads(program, s, name, inner) for s in function.body if not _is_call_of_self(s, inner))


def _is_call_of_self(statement: ast.stmt, scope: Scope) -> bool:
    """Methods of methods are not followed."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == scope.self_name
