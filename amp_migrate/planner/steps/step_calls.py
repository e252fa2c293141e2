"""The calls of a scope that step an optimizer: its own, and calls of functions and methods in sight
that do (a nested `take_step()`, `self.update()`, the `step` of a wrapper of the project).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.calls.targets import makers
from amp_migrate.model.classes.bases_abroad import method_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.step_values import is_value_used
from amp_migrate.model.syntax.module import LOOPS, Function, Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.planner.scaler_placement.sources import gone_through

_HOPS = 3


@dataclass(frozen=True, eq=False)
class StepCall:
    """One optimizer's step as a scope makes it."""

    call: ast.Call
    """The call in the scope: of `step`, or of what leads to it."""
    optimizer: ast.expr
    """The optimizer, as the scope can name it."""
    helper: Scope | None = None
    """The function that the call runs, where that makes the step."""
    inner: StepCall | None = None
    """The step there."""

    @property
    def innermost(self) -> ast.Call:
        """The call of the optimizer's own `step`."""
        return self.inner.innermost if self.inner is not None else self.call


def step_calls(
    program: Program, scope: Scope, hops: int = _HOPS
) -> list[StepCall]:
    """Every step of a scope, in source order, through at most `hops` calls.

    Raises Refusal for a step that has no name here.
    """

    def find() -> list[StepCall]:
        calls = sorted(scope.calls, key=lambda c: (c.lineno, c.col_offset))
        return [
            step
            for call in calls
            for step in _steps_of(program, call, scope, hops)
        ]

    return program.remembered((step_calls, scope, hops), find)


def own_steps(program: Program, scope: Scope) -> list[StepCall]:
    """The steps that a scope makes itself."""
    return [step for step in step_calls(program, scope) if step.inner is None]


def check_value(program: Program, step: StepCall) -> None:
    """`norm = optimizer.step()` of an optimizer of the project: what is skipped gives None. Raises
    Refusal.
    """
    call = step.innermost
    scope = program.module.scope_of(call)
    if isinstance(call.func, ast.Attribute):
        if is_value_used(program, call, call.func.value, scope):
            raise Refusal(
                "unsupported-shape",
                call,
                f"what `{ast.unparse(call)}` gives back is used, and GradScaler.step gives None "
                "where it skips a step: keep the value in the optimizer",
            )


def leads_to_step(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call makes a step, and no backward of its own."""
    function = stepping_function(program, call, scope)
    return function is not None or program.effects.is_step(call, scope)


def stepping_function(
    program: Program, call: ast.Call, scope: Scope
) -> Function | None:
    """The function in sight that a call runs, where that steps an optimizer and does no
    backward.
    """
    if _is_optimizers_own(program, call, scope):
        return None
    function = program.values.callee(call, scope)
    if function is scope.node:
        return None  # `optimizer = Noam(optimizer)`: one name for the wrapper and what it wraps
    effect = (
        program.effects.of_function(function)
        if function is not None
        else EventKind.NONE
    )
    return (
        function
        if effect & EventKind.STEP and not effect & EventKind.BACKWARD
        else None
    )


def _is_optimizers_own(program: Program, call: ast.Call, scope: Scope) -> bool:
    """The `step` of an optimizer, which GradScaler calls, whatever it does inside."""
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "step"
        and program.values.kind(call.func.value, scope) is Kind.OPTIMIZER
    )


def _steps_of(
    program: Program, call: ast.Call, scope: Scope, hops: int
) -> list[StepCall]:
    function = stepping_function(program, call, scope)
    if function is None:
        _refuse_unlinked(program, call, scope)
        if not program.effects.is_step(call, scope):
            return []
        assert isinstance(call.func, ast.Attribute)
        return [StepCall(call, call.func.value)]
    helper = program.scope(function)
    if _fits_afterwards(program, call, scope, helper):
        return []
    _refuse_several(program, call, scope, function)
    inners = step_calls(program, helper, hops - 1) if hops else []
    return [
        StepCall(
            call, _seen_from(program, inner, call, helper, scope), helper, inner
        )
        for inner in inners
    ]


def _fits_afterwards(
    program: Program, call: ast.Call, scope: Scope, helper: Scope
) -> bool:
    """`fit_temperature(model)` behind the training of a script, once: its step goes backward in a
    closure, and uses no gradients of the script's.
    """
    once = isinstance(scope.node, ast.Module) and not any(
        isinstance(one, LOOPS) for one in program.module.ancestors(call)
    )
    later = [one for one in scope.calls if one.lineno > call.lineno]
    effects = program.effects
    if not once or any(
        effects.of_statement(one, scope) & EventKind.BACKWARD for one in later
    ):
        return False
    steps = [c for c in helper.calls if leads_to_step(program, c, helper)]
    closed = (_is_closed(program, one, helper) for one in steps)
    return bool(steps) and all(closed)


def _is_closed(program: Program, step: ast.Call, scope: Scope) -> bool:
    """`optimizer.step(closure)` of a closure that goes backward."""
    given = step.args[0] if len(step.args) == 1 else None
    if given is None or not program.effects.is_step(step, scope):
        return False
    run = program.graph.function_at(given, scope)
    effect = program.effects.of_function(run) if run is not None else None
    return effect is not None and bool(effect & EventKind.BACKWARD)


def _refuse_several(
    program: Program, call: ast.Call, scope: Scope, function: Function
) -> None:
    """Raise Refusal where the call may run another method, of another class that the object may be
    of: that one would not take the scaler.
    """
    func = call.func
    holder = func.value if isinstance(func, ast.Attribute) else None
    if holder is None or not program.values.of(holder, scope).mixed:
        return
    classes = makers(program, holder, scope)
    methods = {
        program.graph.method(one, function.name)
        for one in classes
        if isinstance(one, ast.ClassDef)
    }
    if methods != {function}:
        others = [one for one in (*methods, function) if one is not None]
        places = sorted({place_of(program, one) for one in others})
        raise Refusal(
            "optimizer-wrapper",
            call,
            f"`{ast.unparse(func)}` may run a method of several classes ({', '.join(places)}), "
            "each with a step of its own: let a base class of theirs make the step",
        )


def _refuse_unlinked(program: Program, call: ast.Call, scope: Scope) -> None:
    """Raise Refusal where the step is made in a file that is no part of the program yet."""
    found = elsewhere(program, call, scope)
    if found is None:
        return
    other, function = found
    effect = other.effects.of_function(function)
    if effect & EventKind.STEP and not effect & EventKind.BACKWARD:
        path = other.module.path
        wrapper = (
            isinstance(call.func, ast.Attribute) and call.func.attr == "step"
        )
        raise Refusal(
            "optimizer-wrapper" if wrapper else "step-elsewhere",
            call,
            f"`{function.name}` (line {function.lineno} of {path}) makes the step; "
            "give amp-migrate that file too",
            files=(path, *_factories(program, call, scope)),
        )


def _factories(program: Program, call: ast.Call, scope: Scope) -> list[str]:
    """Files whose functions make what the call's method belongs to: `model, optimizer =
    build(args)`, here or in what calls this function.
    """
    holder = call.func.value if isinstance(call.func, ast.Attribute) else None
    found = _made_in(program, holder, scope, _HOPS) if holder else ()
    return list(dict.fromkeys(found))


def _made_in(
    program: Program, holder: ast.expr, scope: Scope, hops: int
) -> Iterator[str]:
    name = dotted_name(_unindexed(holder))
    home = scope.lookup(name) if name else None
    if home is None or name is None or not hops:
        return
    for value in (b.value for b in home.bindings[name]):
        if isinstance(value, ast.Call):
            where = program.module.scope_of(value)
            made = program.values.abroad(value.func, where)
            if made is not None:
                yield made[0].module.path
    for given, where in program.values.given(name, home):
        yield from _made_in(program, given, where, hops - 1)


def elsewhere(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Program, Function] | None:
    """The function of another file that a call runs: by its name, or as a method of its object."""
    abroad = program.values.abroad(call.func, scope)
    if abroad is not None and not isinstance(abroad[1], ast.ClassDef):
        return abroad[0], abroad[1]
    holder = call.func.value if isinstance(call.func, ast.Attribute) else None
    value = program.values.of(holder, scope) if holder is not None else None
    if value is None or value.foreign is None or value.kind is Kind.OPTIMIZER:
        return None
    assert isinstance(call.func, ast.Attribute)
    return method_of(*value.foreign, call.func.attr)


def _seen_from(
    program: Program,
    inner: StepCall,
    call: ast.Call,
    helper: Scope,
    scope: Scope,
) -> ast.expr:
    """The optimizer of a helper's step, as the helper's caller can name it. Raises Refusal."""
    named = _looped_over(program, _unindexed(inner.optimizer), helper)
    parts = (dotted_name(named) or "").split(".")
    head, rest = parts[0], parts[1:]
    start: ast.expr | None = None
    if head == helper.self_name and isinstance(call.func, ast.Attribute):
        start = call.func.value
    elif any(a.arg == head for a in helper.parameters()):
        start = argument(call, helper, head, helper.takes_receiver)
    elif (
        head
        and (home := helper.lookup(head)) is not None
        and home is scope.lookup(head)
    ):
        start = ast.copy_location(ast.Name(head, ast.Load()), call)
    if start is None:
        raise Refusal(
            "step-elsewhere",
            call,
            f"the optimizer that `{ast.unparse(call.func)}` steps (line {inner.innermost.lineno}) "
            "has no name here, where its scaler would be made",
        )
    for name in rest:
        start = ast.copy_location(ast.Attribute(start, name, ast.Load()), call)
    return start


def _looped_over(
    program: Program, optimizer: ast.expr, helper: Scope
) -> ast.expr:
    """`self.optimizers` of a step in `for one in self.optimizers.values()`."""
    if not isinstance(optimizer, ast.Name):
        return optimizer
    found = helper.bindings.get(optimizer.id, [])
    if len(found) != 1 or found[0].how != "for" or found[0].value is None:
        return optimizer
    return gone_through(program, found[0].value, found[0].index, helper)


def _unindexed(expr: ast.expr) -> ast.expr:
    while isinstance(expr, ast.Subscript):
        expr = expr.value
    return expr
