"""Where scalers are made: in which loop, and in which function that is called in one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from amp_migrate.checks._scaler_states import makes_stepper
from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import Trait
from amp_migrate.model.steps.scalers import is_disabled
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    LOOPS,
    Function,
    Scope,
    returned,
)
from amp_migrate.model.syntax.queries import (
    asks_for_absence,
    calls_in,
    names_in,
    names_stored,
)
from amp_migrate.model.values.kinds import Kind
from amp_migrate.patterns import pattern
from amp_migrate.records import NamedTuple

Often = Literal["batch", "epoch"]
_EPOCH_FUNCTION = pattern(
    r"(?i)^_?(train|fit|run)_?(one|single|an?)?_?epoch$|^train_(func|fn)$|^train$"
)


class Made(NamedTuple):
    """A scaler that is made again and again."""

    call: ast.Call
    often: Often
    loop: ast.stmt | None
    """The loop in the same function, if there is one."""
    caller: ast.Call | None = None
    """The call in a loop of the function that makes it."""


def repeated(program: Program) -> Iterator[Made]:
    """Scalers that are made for every batch, or for every epoch."""
    if "caler" not in program.module.text:
        return
    events = program.events
    for scope in program.module.scopes.values():
        for call in scope.calls:
            is_made = events.what(
                call, scope
            ) is EventKind.SCALER_CREATED or makes_stepper(program, call, scope)
            if is_made and not is_disabled(call) and _is_kept(program, call):
                made = _in_loop(program, call, scope) or _in_function(
                    program, call, scope
                )
                if made is not None:
                    yield made


def _is_kept(program: Program, call: ast.Call) -> bool:
    """Bound to a name or an attribute; one of a collection is one per network."""
    parent = program.module.parents[call]
    while isinstance(parent, ast.IfExp):
        parent = program.module.parents[parent]
    return isinstance(parent, ast.Assign) and all(
        isinstance(t, (ast.Name, ast.Attribute)) for t in parent.targets
    )


def _loops(program: Program, node: ast.AST) -> list[ast.stmt]:
    """Loops around `node` in its function, innermost first; what a `for` goes over is asked for
    once.
    """
    found: list[ast.stmt] = []
    inner = node
    for around in program.module.ancestors(node):
        if isinstance(around, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            break
        if isinstance(around, LOOPS) and inner is not getattr(
            around, "iter", None
        ):
            found.append(around)
        inner = around
    return found


def _in_loop(program: Program, call: ast.Call, scope: Scope) -> Made | None:
    loops = _loops(program, call)
    if (
        not loops
        or _on_first_use(program, call)
        or _makes_optimizer(program, loops[0], scope)
    ):
        return None
    inside = set(calls_in(loops[0]))
    steps = [step for step in _steps(program, scope) if step in inside]
    unseen = [
        one
        for one in _handed_over(program, call, scope)
        if one in inside and one not in steps
    ]
    depths = [
        len(_loops(program, step)) - len(loops) + _turns(program, step, scope)
        for step in steps
    ] or [_counts_epochs(loops[0]) for _ in unseen]
    if not depths or any(
        _is_young(program, step, loops[0], scope) for step in steps or unseen
    ):
        return None
    return Made(call, "batch" if min(depths) == 0 else "epoch", loops[0])


def _handed_over(
    program: Program, made: ast.Call, scope: Scope
) -> Iterator[ast.Call]:
    """The calls of code out of sight that are handed the scaler beside an optimizer."""
    parent = program.module.parents[made]
    while isinstance(parent, ast.IfExp):
        parent = program.module.parents[parent]
    kept = names_stored(parent)
    for call in scope.calls:
        given = [*call.args, *(entry.value for entry in call.keywords)]
        names = {one.id for one in given if isinstance(one, ast.Name)}
        if names & kept and any(
            program.effects.is_optimizer(one, scope) for one in given
        ):
            yield call


def _counts_epochs(loop: ast.stmt) -> bool:
    """Whether a loop is one over epochs, by its words."""
    heads = (
        (loop.target, loop.iter)
        if isinstance(loop, (ast.For, ast.AsyncFor))
        else (loop.test,)
        if isinstance(loop, ast.While)
        else ()
    )
    return any("epoch" in ast.unparse(one).lower() for one in heads)


def _on_first_use(program: Program, call: ast.Call) -> bool:
    """`if scaler is None: scaler = GradScaler()`."""
    for around in program.module.ancestors(call):
        if isinstance(around, ast.If) and asks_for_absence(around.test):
            return True
        if isinstance(around, (*FUNCTIONS, *LOOPS)):
            return False
    return False


def _is_young(
    program: Program, step: ast.Call, loop: ast.stmt, scope: Scope
) -> bool:
    """Whether the optimizer that is stepped with, or handed to the step, is bound in the loop."""
    given = [*step.args, *(entry.value for entry in step.keywords)]
    return any(
        isinstance(one, ast.Name)
        and program.effects.is_optimizer(one, scope)
        and any(
            loop in _loops(program, b.statement)
            for b in scope.bindings.get(one.id, ())
        )
        for one in given
    )


def _is_given_new(
    program: Program, steps: list[ast.Call], scope: Scope
) -> bool:
    """Whether what a step is handed holds an optimizer that a call has made for the function:
    `optimizer, scheduler = build(model)`.
    """
    given = {
        one.id
        for step in steps
        for one in (*step.args, *(entry.value for entry in step.keywords))
        if isinstance(one, ast.Name)
    }
    return any(
        isinstance(bound.value, ast.Call)
        and any(
            _makes_optimizer(program, made, program.scope(made))
            for made in program.values.callees(bound.value, scope)
        )
        for name in given
        for bound in scope.bindings.get(name, ())
    )


def _makes_optimizer(program: Program, node: ast.AST, scope: Scope) -> bool:
    """Whether an optimizer is made in there as well: then all of it is young."""
    inside = set(calls_in(node))
    return any(
        c in inside
        and program.values.kind(c, scope)
        in {Kind.OPTIMIZER, Kind.FOREIGN_OPTIMIZER}
        for c in scope.calls
    )


def _steps(program: Program, scope: Scope) -> list[ast.Call]:
    """Calls that step with a scaler, themselves or in a function in sight."""
    events = program.events
    found = []
    for call in scope.calls:
        function = events.callee(call, scope)
        if events.what(call, scope) == EventKind.SCALER_STEP or (
            function is not None
            and Trait.SCALER in events.of_function(function)
        ):
            found.append(call)
    return found


def _turns(program: Program, step: ast.Call, scope: Scope) -> int:
    """How many loops of the function that a call runs stand around each step in there."""
    function = program.events.callee(step, scope)
    if function is None or program.events.what(step, scope) is not None:
        return 0
    inner = program.scope(function)
    return min(
        (len(_loops(program, s)) for s in _steps(program, inner)), default=0
    )


def _in_function(program: Program, call: ast.Call, scope: Scope) -> Made | None:
    function = scope.node
    steps = (
        [s for s in _steps(program, scope) if s.lineno > call.lineno]
        if isinstance(function, FUNCTIONS)
        else []
    )
    if (
        not isinstance(function, FUNCTIONS)
        or not steps
        or _loops(program, call)
        or _makes_optimizer(program, function, scope)
        or _is_given_new(program, steps, scope)
    ):
        return None
    if _on_first_use(program, call) or function.name in {"__init__", "main"}:
        return None
    depth = max(len(_loops(program, step)) for step in steps)
    often: Often = "epoch" if depth else "batch"
    for site in program.graph.sites(function):
        loops = _loops(program, site.call)
        if (
            loops
            and not _makes_optimizer(program, loops[0], site.scope)
            and program.values.callee(site.call, site.scope) is function
            and (depth <= 1 or _outlives(program, steps, site, loops[-1]))
        ):
            return Made(call, often, None, site.call)
    if depth > 1:
        return None
    if not depth and _is_turn(program, function, call):
        return Made(call, "batch", None)
    return (
        Made(call, "epoch", None)
        if depth and _by_name(program, function)
        else None
    )


def _outlives(
    program: Program, steps: list[ast.Call], site: CallSite, loop: ast.stmt
) -> bool:
    """Whether the optimizer that a function steps with was made before the loop of its caller: it
    is handed over, or kept by the object whose method calls the other.
    """
    scope = program.module.scope_of(steps[0])
    for one in (arg for step in steps for arg in step.args):
        bound = scope.bindings.get(dotted_name(one) or "", ())
        if isinstance(one, ast.Name) and [b.how for b in bound] == [
            "parameter"
        ]:
            given = argument(site.call, scope, one.id, scope.takes_receiver)
            if given is not None and _is_older(
                program, given, site.scope, loop
            ):
                return True
        own = f"{scope.self_name}." if scope.self_name else None
        name = dotted_name(one) or ""
        caller = dotted_name(site.call.func) or ""
        if own and name.startswith(own) and caller.startswith(own):
            return True
    return False


def _is_older(
    program: Program, given: ast.expr, scope: Scope, loop: ast.stmt
) -> bool:
    """Whether a variable is bound in front of a loop only."""
    home = scope.lookup(given.id) if isinstance(given, ast.Name) else None
    return home is not None and all(
        bound.statement is not loop
        and loop not in program.module.ancestors(bound.statement)
        for bound in home.bindings[dotted_name(given) or ""]
    )


def _is_turn(program: Program, function: Function, made: ast.Call) -> bool:
    """Whether no caller of a method is in sight, and it makes a scaler for itself, steps once and
    updates: what the update learns is gone with the call.
    """
    scope = program.module.scopes[function]
    parent = program.module.parents[made]
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    kept = names_stored(parent) if targets else set()
    return (
        scope.self_name is not None
        and not function.name.startswith("test")
        and bool(kept)
        and all(isinstance(t, ast.Name) for t in targets)
        and not program.graph.sites(function)
        and any(
            program.events.what(c, scope) is EventKind.UPDATE
            for c in scope.calls
        )
        and not any(kept & names_in(value) for value in returned(function))
    )


def _by_name(program: Program, function: Function) -> bool:
    """No caller is in sight, but name and parameters say that it runs one epoch."""
    names = {a.arg for a in program.module.scopes[function].parameters()}
    return (
        bool(_EPOCH_FUNCTION.search(function.name))
        and "epoch" in names
        and not program.graph.sites(function)
    )
