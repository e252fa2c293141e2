"""The scaled loss is logged as if it were the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._following import following
from amp_migrate.checks._returned_losses import is_returned_and_read, returned
from amp_migrate.config import Settings
from amp_migrate.model.conditions.arms import are_exclusive
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import Trait
from amp_migrate.model.syntax.module import Scope, shallow
from amp_migrate.model.syntax.queries import calls_in, names_in, names_stored

RULE = Rule("loss-logged-after-scaling", severity="warning")
_READS = {"item", "detach", "cpu", "tolist", "numpy"}
_NUMBERS = {"item", "tolist", "numpy"}
_HANDED_ON = (
    "callers start the backward pass from this and read it as the loss, which it is times the "
    "scaler's factor (65,536 at first); return the loss as well"
)
_TESTS = {"isfinite", "isnan", "isinf", "float"}


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find reads of a name behind `name = scaler.scale(name)` or `loss =
    scaler.scale(criterion(...))`, and of the product right away.
    """
    events = program.events
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if events.what(call, scope) != EventKind.SCALE:
                continue
            statement = _statement(program, call)
            if statement is not None and _rebinds(statement, call):
                yield from _reads(program, statement, call, scope)
                yield from _returns(program, statement, call, scope)
            elif _is_logged(program, call):
                yield _logged(program, call)
            elif is_returned_and_read(program, call, scope, _is_read):
                yield finding_at(program, call, RULE, _HANDED_ON)


def _is_logged(program: Program, call: ast.Call) -> bool:
    """Whether the product is a number at once: `scaler.scale(loss).item()`. What reckons with the
    factor may ask for it, and so may a test.
    """
    if not _is_number(program, call):
        return False
    statement = program.module.statement_of(call)
    inside = shallow(statement)
    return not isinstance(statement, (ast.Assert, ast.If, ast.While)) and not (
        any(isinstance(one, ast.Call) and _asks_scale(one) for one in inside)
    )


def _is_number(program: Program, call: ast.Call) -> bool:
    """`float(x)`, `f"{x}"` or `x.item()`, be it after `x.detach().cpu()`."""
    node: ast.expr = call
    while True:
        above = program.module.parents[node]
        if not isinstance(above, ast.Attribute):
            break
        if above.attr in _NUMBERS:
            return True
        held = program.module.parents[above]
        if above.attr not in _READS or not isinstance(held, ast.Call):
            return False
        node = held
    if isinstance(above, ast.Call) and isinstance(above.func, ast.Name):
        return above.func.id == "float"
    return isinstance(above, ast.FormattedValue)


def _logged(program: Program, call: ast.Call) -> Finding:
    message = (
        "this is the loss times the scaler's factor (65,536 at first), not the loss; read the "
        "loss itself"
    )
    return finding_at(program, call, RULE, message)


def _returns(
    program: Program, scaled: ast.Assign, call: ast.Call, scope: Scope
) -> Iterator[Finding]:
    message = (
        "the loss was multiplied by the scaler's factor under its own name, so callers read the "
        "product as the loss; write `scaler.scale(loss).backward()`"
    )
    target = scaled.targets[0]
    assert isinstance(target, ast.Name)
    fix = _fix(Code(program, scaled), scaled, call, target.id)
    for place in returned(program, scaled, scope, _is_read):
        yield finding_at(
            program,
            place,
            RULE,
            message,
            related=[(scaled, "scaled here")],
            fix=fix,
        )


def _statement(
    program: Program,
    call: ast.Call,
) -> ast.Assign | None:
    """The assignment of a call's value, be it only where there is a scaler: `loss =
    scaler.scale(loss) if scaler else loss`.
    """
    above = program.module.parents[call]
    if isinstance(above, ast.IfExp):
        rest = above.orelse if above.body is call else above.body
        given = call.args[0] if call.args else None
        if not isinstance(rest, ast.Name) or not isinstance(given, ast.Name):
            return None
        if rest.id != given.id:
            return None
        above = program.module.parents[above]
    return above if isinstance(above, ast.Assign) else None


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
    behind = list(following(program, scaled))
    for statement in behind:
        for node in shallow(statement):
            if (
                isinstance(node, ast.Name)
                and node.id == target.id
                and _is_read(program, node)
                and not are_exclusive(program, scaled, node)
                and not _is_undone(program, node, behind, scope)
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


def _is_read(program: Program, node: ast.expr) -> bool:
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


def _is_undone(
    program: Program, node: ast.Name, behind: list[ast.stmt], scope: Scope
) -> bool:
    """Whether what is read is divided by the factor, asked for before an update may change it."""
    read = program.module.parents[program.module.parents[node]]
    above = program.module.parents[read]
    if not isinstance(above, ast.BinOp) or not isinstance(above.op, ast.Div):
        return False
    divisor = names_in(above.right)
    for statement in behind:
        for call in calls_in(statement):
            if _asks_scale(call) and (
                names_stored(statement) & divisor
                or call in set(calls_in(above.right))
            ):
                return True
            function = program.events.callee(call, scope)
            if program.events.what(call, scope) is EventKind.UPDATE or (
                function is not None
                and Trait.SCALER in program.events.of_function(function)
            ):
                return False
    return False


def _asks_scale(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute) and call.func.attr == "get_scale"
    )


def _fix(
    code: Code, scaled: ast.Assign, call: ast.Call, name: str
) -> Fix | None:
    """The scaled value moves into the backward pass right behind; of a scaler that may not be
    there, a person decides.
    """
    if scaled.value is not call:
        return None
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
