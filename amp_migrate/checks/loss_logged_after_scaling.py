"""The scaled loss is logged as if it were the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.events import EventKind
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope, shallow

RULE = Rule("loss-logged-after-scaling", severity="warning")
_READS = {"item", "detach", "cpu", "tolist", "numpy"}
_TESTS = {"isfinite", "isnan", "isinf", "float"}


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find reads of a name behind `name = scaler.scale(name)` or `loss =
    scaler.scale(criterion(...))`.
    """
    events = program.events
    for scope in program.module.scopes.values():
        for call in scope.calls:
            statement = program.module.parents[call]
            if (
                isinstance(statement, ast.Assign)
                and events.what(call, scope) == EventKind.SCALE
                and _rebinds(statement, call)
            ):
                yield from _reads(program, statement, call, scope)


def _rebinds(statement: ast.Assign, call: ast.Call) -> bool:
    target, given = statement.targets[0], call.args[0] if call.args else None
    if not isinstance(target, ast.Name):
        return False
    if isinstance(given, ast.Call):
        return "scal" not in target.id.lower()
    return isinstance(given, ast.Name) and target.id == given.id


def _reads(
    program: Program, scaled: ast.Assign, call: ast.Call, scope: Scope
) -> Iterator[Finding]:
    target = scaled.targets[0]
    assert isinstance(target, ast.Name)
    code = Code(program, scaled)
    message = (
        "the loss was multiplied by the scaler's factor under its own name, so this is not the "
        "loss but the product; "
        "write `scaler.scale(loss).backward()`"
    )
    fix = _fix(code, scaled, call, target.id)
    for statement in code.after(scaled):
        for node in shallow(statement):
            if (
                isinstance(node, ast.Name)
                and node.id == target.id
                and _is_read(program, node)
            ):
                read = program.module.parents[node]
                place = read if isinstance(read, ast.expr) else node
                yield finding_at(
                    program,
                    place,
                    RULE,
                    message,
                    related=[(scaled, "scaled here")],
                    fix=fix,
                )
        if any(
            isinstance(n, ast.Name)
            and n.id == target.id
            and isinstance(n.ctx, ast.Store)
            for n in shallow(statement)
        ):
            return


def _is_read(program: Program, node: ast.Name) -> bool:
    parent = program.module.parents[node]
    if isinstance(parent, ast.Attribute):
        return parent.attr in _READS
    if isinstance(parent, ast.AugAssign):
        return parent.value is node
    if isinstance(parent, ast.Call) and node in parent.args:
        func = parent.func
        return (
            func.attr
            if isinstance(func, ast.Attribute)
            else getattr(func, "id", "")
        ) in _TESTS
    return isinstance(parent, ast.FormattedValue)


def _fix(
    code: Code, scaled: ast.Assign, call: ast.Call, name: str
) -> Fix | None:
    """The scaled value moves into the backward pass right behind."""
    for statement in code.after(scaled):
        value = statement.value if isinstance(statement, ast.Expr) else None
        func = value.func if isinstance(value, ast.Call) else None
        if (
            isinstance(func, ast.Attribute)
            and func.attr == "backward"
            and isinstance(func.value, ast.Name)
            and func.value.id == name
        ):
            how = "scale the loss where its backward pass starts"
            if isinstance(call.args[0], ast.Name):
                return Fix(
                    "safe",
                    how,
                    (
                        code.remove(scaled),
                        code.replace(func.value, code.source(call)),
                    ),
                )
            scale = code.replace(
                func.value, f"{code.source(call.func)}({name})"
            )
            return Fix(
                "safe", how, (code.replace(call, "$0", call.args[0]), scale)
            )
    return None
