"""Two scaled optimizers share parameters, so shared gradients are unscaled twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.events import EventKind
from amp_migrate.model.kinds import Kind
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope

RULE = Rule("param-in-two-optimizers", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find two optimizers of one model, or of a model and a part of it, that a scaler steps in
    one block.
    """
    events = program.events
    message = (
        "these parameters are in another optimizer of the same scaler too, so their gradients "
        "are divided by the scaler's factor twice"
    )
    told: set[ast.AST] = set()
    for scope in events.scaler_scopes():
        built = _built(program, scope)
        for index, (first, whole, at) in enumerate(built):
            for second, other, there in built[index + 1 :]:
                if (
                    first is not second
                    and at is there
                    and _shared(whole, other)
                    and second not in told | {first}
                ):
                    late, early = sorted(
                        (first, second),
                        key=lambda c: (c.lineno, c.col_offset),
                        reverse=True,
                    )
                    told.add(late)
                    yield finding_at(
                        program,
                        late,
                        RULE,
                        message,
                        related=[(early, "the same parameters")],
                    )


def _built(
    program: Program, scope: Scope
) -> list[tuple[ast.Call, str, object]]:
    """Constructors of the optimizers stepped here, the model whose parameters each one gets, and
    the block of the step.
    """
    found: dict[ast.Call, tuple[ast.Call, str, object]] = {}
    for call in scope.calls:
        if (
            program.events.what(call, scope) != EventKind.SCALER_STEP
            or not call.args
        ):
            continue
        origin = _constructor(program, call.args[0], scope)
        model = _model(origin) if origin is not None else None
        if origin is not None and model is not None:
            found[origin] = (
                origin,
                model,
                program.module.parents[program.module.statement_of(call)],
            )
    return list(found.values())


def _constructor(
    program: Program, expr: ast.expr, scope: Scope
) -> ast.Call | None:
    """The one constructor behind an optimizer that is bound once."""
    value = program.values.of(expr, scope)
    name = dotted_name(expr)
    if (
        value.kind is not Kind.OPTIMIZER
        or not isinstance(value.origin, ast.Call)
        or name is None
    ):
        return None
    around = program.graph.class_around(scope)
    home = (
        program.module.scopes[around]
        if around is not None and "." in name
        else scope.lookup(name.partition(".")[0])
    )
    bindings = home.bindings.get(name, []) if home is not None else []
    return (
        value.origin
        if len(bindings) == 1 and bindings[0].how == "assign"
        else None
    )


def _model(origin: ast.Call) -> str | None:
    given = (
        origin.args[0]
        if origin.args
        else next((k.value for k in origin.keywords if k.arg == "params"), None)
    )
    if (
        isinstance(given, ast.Call)
        and isinstance(given.func, ast.Attribute)
        and given.func.attr == "parameters"
    ):
        return dotted_name(given.func.value)
    return None


def _shared(one: str, other: str) -> bool:
    return (
        one == other
        or one.startswith(other + ".")
        or other.startswith(one + ".")
    )
