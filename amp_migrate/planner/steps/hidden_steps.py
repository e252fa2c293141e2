"""Steps that no call of a loop shows: in a lambda that has a name, behind a name for the method,
in a hook of backward.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope, shallow
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.files.vicinity import files_near
from amp_migrate.planner.groups import Group
from amp_migrate.planner.refusal import Refusal, place_of

_HOOK = "register_post_accumulate_grad_hook"


def hidden_step(program: Program, group: Group) -> Refusal | None:
    """Why a loop is left alone that steps where no statement of it says so."""
    for statement in group.training(program):
        for node in shallow(statement):
            step = _in_lambda(program, node, group.scope)
            if step is not None:
                what = f"`{ast.unparse(step)}` ({place_of(program, step)})"
                return Refusal(
                    "step-elsewhere",
                    node,
                    f"{what} steps in a lambda: step in a statement of the loop, or in a function",
                )
            kept = _kept_step(program, node, group.scope)
            if kept is not None:
                return Refusal(
                    "step-elsewhere",
                    node,
                    f"`{ast.unparse(node)}` runs {kept}: call the step of the optimizer itself",
                )
    hook = next(_hooks_that_step(program, group.scope), None)
    if hook is None:
        return None
    place = place_of(program, hook)
    why = f"`{ast.unparse(hook)}` ({place}) steps inside backward, before a scaler could unscale "
    return Refusal("optimizer-wrapper", hook, f"{why}the gradients")


def _in_lambda(
    program: Program, node: ast.AST, scope: Scope
) -> ast.Call | None:
    """`optimizer.step()` of `step = lambda: optimizer.step()`, where `step()` is called."""
    if not isinstance(node, ast.Call):
        return None
    dotted = dotted_name(node.func)
    bindings = program.reaching.at(node.func, dotted).bindings if dotted else ()
    bodies = [
        one.value.body for one in bindings if isinstance(one.value, ast.Lambda)
    ]
    inner = (n for body in bodies for n in nodes_in(body))
    calls = (one for one in inner if isinstance(one, ast.Call))
    return next((one for one in calls if _steps(program, one, scope)), None)


def _kept_step(program: Program, node: ast.AST, scope: Scope) -> str | None:
    """`take()` of `take = optimizer.step`, and `torch.optim.SGD.step(optimizer)`."""
    if not isinstance(node, ast.Call):
        return None
    canonical = program.canonical(node.func) or ""
    if canonical.startswith("torch.optim.") and canonical.endswith(".step"):
        return "the step of an optimizer that it is given"
    dotted = dotted_name(node.func)
    bindings = program.reaching.at(node.func, dotted).bindings if dotted else ()
    for one in bindings:
        value = one.value
        if one.index is not None and isinstance(value, (ast.Tuple, ast.List)):
            value = (
                value.elts[one.index] if one.index < len(value.elts) else None
            )
        if isinstance(value, ast.Attribute) and value.attr == "step":
            if program.effects.is_optimizer(value.value, scope):
                return f"`{ast.unparse(value)}` ({place_of(program, value)})"
    return None


def _steps(program: Program, call: ast.Call, scope: Scope) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "step"
        and program.effects.is_optimizer(call.func.value, scope)
    )


def _hooks_that_step(program: Program, scope: Scope) -> Iterator[ast.Call]:
    """The hooks on gradients in files near a loop that step an optimizer."""
    for file in files_near(program, scope):
        if _HOOK not in file.text:
            continue
        for where in file.own_scopes:
            for call in where.calls:
                name = getattr(call.func, "attr", "")
                if name == _HOOK and _runs_step(program, call, where):
                    yield call


def _runs_step(program: Program, call: ast.Call, scope: Scope) -> bool:
    functions = (program.graph.function_at(one, scope) for one in call.args)
    return any(
        bool(program.effects.of_function(one) & EventKind.STEP)
        for one in functions
        if one is not None
    )
