"""One training loop to migrate: its scope, its backward calls, and where its optimizers step."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from amp_migrate.migrate.optimizers import no_step
from amp_migrate.migrate.refusal import Refusal, Skip
from amp_migrate.migrate.screen import two_pass_steps
from amp_migrate.model.effects import Effect
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Scope
from amp_migrate.names import dotted_name


@dataclass(frozen=True, eq=False)
class Stepper:
    """A scope in which optimizers step, and its calls that run backward (its own, or helpers')."""

    scope: Scope
    steps: list[ast.Call]
    backwards: list[ast.Call]


@dataclass(frozen=True, eq=False)
class Loop:
    """The scope that calls backward, and the scopes that step on those gradients (usually the same one)."""

    scope: Scope
    backwards: list[ast.Call]
    steppers: list[Stepper]


def find_loop(program: Program, scope: Scope, backwards: list[ast.Call], *, scaled: bool = True) -> Loop:
    """Join a scope's backwards with the steps of the same scope or of its callers. Raises Skip or Refusal.

    `scaled` False (bfloat16): autocast asks nothing of the steps, so it is enough that there are some, wherever they stand.
    """
    if program.effects.steps(scope):
        return Loop(scope, backwards, [_stepper(program, scope)])
    try:
        return _apart(program, scope, backwards)
    except Skip:
        if scaled or not two_pass_steps(scope):
            raise
    except Refusal:
        if scaled:
            raise
    return Loop(scope, backwards, [])


def _apart(program: Program, scope: Scope, backwards: list[ast.Call]) -> Loop:
    """A loop whose steps are made by what calls the scope."""
    closure = _stepped_with(program, scope)
    if closure is not None:
        raise Refusal(
            "step-with-closure",
            closure,
            "the step evaluates the loss itself, several times; GradScaler does not support closures,"
            " and --dtype bfloat16 needs none",
        )
    callers = [s for s in _callers(program, scope) if program.effects.steps(s)]
    if not callers:
        raise no_step(program, scope, backwards[0])
    return Loop(scope, backwards, [_stepper(program, caller) for caller in callers])


def _stepper(program: Program, scope: Scope) -> Stepper:
    own = program.effects.backwards(scope)
    helpers = [c for c in scope.calls if c not in own and _leads_to_backward(program, c, scope)]
    return Stepper(
        scope, program.effects.steps(scope), sorted([*own, *helpers], key=lambda c: (c.lineno, c.col_offset))
    )


def _leads_to_backward(program: Program, call: ast.Call, scope: Scope) -> bool:
    function = program.values.callee(call, scope)
    if function is None or program.effects.of_function(function) & Effect.STEP:
        return False
    return bool(program.effects.of_function(function) & Effect.BACKWARD)


def _stepped_with(program: Program, scope: Scope) -> ast.Call | None:
    """`optimizer.step(closure)` where this scope is the closure."""
    if not isinstance(scope.node, FUNCTIONS):
        return None
    for other in program.module.scopes.values():
        for call in other.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr == "step":
                given = [*call.args, *(k.value for k in call.keywords)]
                if any((dotted_name(a) or "").rpartition(".")[2] == scope.node.name for a in given):
                    return call
    return None


def _callers(program: Program, scope: Scope) -> list[Scope]:
    """The scopes that call a function or method, each once."""
    if not isinstance(scope.node, FUNCTIONS):
        return []
    found: dict[int, Scope] = {}
    for site in program.graph.sites(scope.node):
        if program.values.callee(site.call, site.scope) is scope.node:
            found[id(site.scope)] = site.scope
    return list(found.values())
