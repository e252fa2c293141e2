"""One training loop to migrate: its backward calls, and the scopes in which optimizers step on
their gradients.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Function,
    Scope,
    is_abstract,
)
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.planner.gradients.cleared_before_steps import all_cleared
from amp_migrate.planner.groups import Group, groups
from amp_migrate.planner.optimizers.refusals import no_step
from amp_migrate.planner.preconditions.checks import two_pass_steps
from amp_migrate.planner.refusal import Refusal, Skip
from amp_migrate.planner.steps.step_calls import StepCall, step_calls

_HOPS = 3


@dataclass(frozen=True, eq=False)
class Stepper:
    """A scope in which optimizers step, and its calls that run backward (its own, or helpers')."""

    scope: Scope
    steps: list[StepCall]
    backwards: list[ast.Call]
    chain: tuple[Scope, ...] = ()
    """The scopes through which it calls the one with the backward, that one last."""


@dataclass(frozen=True, eq=False)
class Loop:
    """The scope that calls backward, and the scopes that step on those gradients (usually the same
    one).
    """

    scope: Scope
    backwards: list[ast.Call]
    steppers: list[Stepper]
    around: tuple[ast.stmt, ...] = ()
    """The statements of the scope's body that hold the training, with all between."""

    def statements(self, stepper: Stepper) -> tuple[ast.stmt, ...]:
        """The statements of a stepping scope that may touch its gradients."""
        return (
            self.around
            if stepper.scope is self.scope
            else tuple(stepper.scope.body)
        )


def find_loop(program: Program, group: Group, *, scaled: bool = True) -> Loop:
    """Join backwards with the steps of the same scope or of its callers. Raises Skip or Refusal.

    `scaled` False (bfloat16): autocast asks nothing of the steps, so it is enough that there are
    some, wherever they stand.
    """
    if group.steps:
        _refuse_lambda(group)
        return Loop(
            group.scope, group.backwards, [_own(program, group)], group.around
        )
    try:
        return _apart(program, group)
    except Skip:
        if scaled or not two_pass_steps(group.scope):
            raise
    except Refusal:
        if scaled:
            raise
    return Loop(group.scope, group.backwards, [], group.around)


def _refuse_lambda(group: Group) -> None:
    """`lambda loss: (loss.backward(), optimizer.step())` has no room for a region or a cycle."""
    if isinstance(group.scope.node, ast.Lambda):
        raise Refusal(
            "unsupported-shape",
            group.backwards[0],
            "backward and step stand in a lambda, which holds no statements: make it a function",
        )


def _own(program: Program, group: Group) -> Stepper:
    """The steps and backwards of one scope, calls of helpers that run backward among them."""
    held = [c for c in group.scope.calls if _holds(program, group, c)]
    helpers = [
        c
        for c in held
        if _leads_to_backward(program, c, group.scope)
        and not all_cleared(program, c, group.steps)
    ]
    return Stepper(
        group.scope, group.steps, _ordered([*group.backwards, *helpers])
    )


def _holds(program: Program, group: Group, call: ast.Call) -> bool:
    around = {id(a) for a in program.module.ancestors(call)}
    return call not in group.backwards and any(
        id(s) in around for s in group.around
    )


def _ordered(calls: list[ast.Call]) -> list[ast.Call]:
    return sorted(calls, key=lambda c: (c.lineno, c.col_offset))


def _apart(program: Program, group: Group) -> Loop:
    """A loop whose steps are made by what calls the scope."""
    closure = _stepped_with(program, group.scope)
    if closure is not None:
        raise Refusal(
            "step-with-closure",
            closure,
            "the step evaluates the loss itself, several times; GradScaler does not support "
            "closures,"
            " and --dtype bfloat16 needs none",
        )
    found = _steppers_above(program, (group.scope,))
    if not found:
        raise _cleared(program, group) or no_step(program, group)
    return Loop(group.scope, group.backwards, found, group.around)


def _cleared(program: Program, group: Group) -> Skip | None:
    """An attack on the batch: whoever calls it clears the gradients that it leaves."""
    callers = _callers(program, group.scope)
    stepping = [caller for caller in callers if step_calls(program, caller)]
    if not stepping or any(
        not all_cleared(program, call, step_calls(program, caller))
        for caller in stepping
        for call in _calls_of(program, caller, group.scope)
    ):
        return None
    return Skip(
        "no-optimizer",
        group.backwards[0],
        "these gradients are cleared before an optimizer steps: a scaler would only change what "
        "is read of them",
    )


def _calls_of(program: Program, caller: Scope, scope: Scope) -> list[ast.Call]:
    return [
        call
        for call in caller.calls
        if scope.node in _run(program, call, caller)
    ]


def _steppers_above(
    program: Program, chain: tuple[Scope, ...]
) -> list[Stepper]:
    """The nearest scopes that call the first of a chain, or what calls it, and make the steps."""
    found: list[Stepper] = []
    for caller in _callers(program, chain[0]):
        stepper = _stepper(program, caller, chain)
        if stepper is not None:
            found.append(stepper)
        elif len(chain) <= _HOPS and caller not in chain:
            found += _steppers_above(program, (caller, *chain))
    return found


def _stepper(
    program: Program, caller: Scope, chain: tuple[Scope, ...]
) -> Stepper | None:
    helpers = [
        c for c in caller.calls if _leads_to_backward(program, c, caller)
    ]
    steps = step_calls(program, caller)
    into = [
        c
        for c in _calls_of(program, caller, chain[0])
        if c in helpers and not all_cleared(program, c, steps)
    ]
    parts = groups(
        program,
        caller,
        _ordered([*program.effects.backwards(caller), *helpers]),
    )
    mine = [
        part
        for part in parts
        if part.steps and any(b in into for b in part.backwards)
    ]
    if not mine:
        return None
    own = [step for part in mine for step in part.steps]
    return Stepper(
        caller, own, [b for part in mine for b in part.backwards], chain
    )


def _run(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Function, ...]:
    """What a call may run: the method itself, unless it is left to heirs, and what heirs put in its
    place.
    """
    others = program.values.callees(call, scope)
    return tuple(one for one in others if not is_abstract(one))


def _leads_to_backward(program: Program, call: ast.Call, scope: Scope) -> bool:
    """What the call names does; where that is left to heirs, all of theirs do."""
    named = program.values.callee(call, scope)
    is_left = named is None or is_abstract(named)
    run = _run(program, call, scope) if named is None or is_left else (named,)
    found = [program.effects.of_function(one) for one in run]
    return bool(found) and all(
        one & EventKind.BACKWARD and not one & EventKind.STEP for one in found
    )


def _stepped_with(program: Program, scope: Scope) -> ast.Call | None:
    """`optimizer.step(closure)` where this scope is the closure."""
    if not isinstance(scope.node, FUNCTIONS):
        return None
    for other in program.module.scopes.values():
        for call in other.calls:
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr == "step"
            ):
                given = [*call.args, *(k.value for k in call.keywords)]
                if any(_runs(program, a, scope.node.name) for a in given):
                    return call
    return None


def _runs(program: Program, given: ast.expr, name: str) -> bool:
    """Whether a step that is given something runs what has a name: itself, in
    a lambda, or with arguments that are bound to it.
    """
    held: list[ast.expr] = [given]
    if isinstance(given, ast.Lambda):
        held = [call.func for call in calls_in(given.body)]
    elif isinstance(given, ast.Call):
        is_partial = program.canonical(given.func) == "functools.partial"
        held = given.args[:1] if is_partial else []
    for one in held:
        dotted = dotted_name(one) or ""
        if dotted.rpartition(".")[2] == name:
            return True
    return False


def _callers(program: Program, scope: Scope) -> list[Scope]:
    """The scopes that call a function or method, each once."""
    if not isinstance(scope.node, FUNCTIONS):
        return []
    found: dict[int, Scope] = {}
    for site in program.graph.sites(scope.node):
        if scope.node in _run(program, site.call, site.scope):
            found[id(site.scope)] = site.scope
    return list(found.values())
