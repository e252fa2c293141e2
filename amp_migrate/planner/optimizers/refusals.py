"""Reasons to refuse that lie with the optimizer: none in sight, one of its own rules, gradients
used beside it.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.step_signatures import takes_no_closure
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind, Value, scheduler_name
from amp_migrate.planner.gradients.cleared_gradients import never_stepped
from amp_migrate.planner.gradients.uses import manual_update
from amp_migrate.planner.groups import Group
from amp_migrate.planner.optimizers.given_back import attached, given_back
from amp_migrate.planner.optimizers.handed_optimizers import handed_over
from amp_migrate.planner.optimizers.passed_on import passed_on
from amp_migrate.planner.preconditions.checks import own_nodes
from amp_migrate.planner.refusal import Refusal, Skip, place_of, what_was_read
from amp_migrate.planner.steps.hidden_steps import hidden_step
from amp_migrate.planner.steps.steps_of_callers import stepped_by_callers
from amp_migrate.project.import_paths import resolved
from amp_migrate.torch_facts import optimizers as library_optimizers


def no_step(program: Program, group: Group) -> Refusal:
    """Why a loop without an optimizer's step in sight is left alone."""
    scope = group.scope
    for call in scope.calls:
        if not isinstance(call.func, ast.Attribute):
            continue
        named = call.func.attr.startswith(
            "step_"
        ) and program.effects.is_optimizer(call.func.value, scope)
        if named or call.func.attr.startswith(("step_and_", "update_and_")):
            return Refusal(
                "optimizer-wrapper",
                call,
                f"`{ast.unparse(call.func)}` steps through a wrapper that GradScaler cannot step",
            )
    return (
        _passed_in_place_of_step(program, group)
        or _updated_by_hand(program, group)
        or _stepped_apart(program, group)
        or _stepped_by_unknown(program, group)
        or hidden_step(program, group)
        or stepped_by_callers(program, group)
        or Skip(
            "no-optimizer",
            group.backwards[0],
            "no optimizer steps on these gradients",
        )
    )


def _passed_in_place_of_step(program: Program, group: Group) -> Refusal | None:
    """`xm.optimizer_step(optimizer)`: whatever takes the optimizer may step it."""
    for statement in group.training(program):
        passed = passed_on(program, group.scope, [statement])
        if passed is not None:
            return passed
    return None


def _updated_by_hand(program: Program, group: Group) -> Refusal | None:
    nodes = [n for s in group.training(program) for n in shallow(s)]
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    helpers = [
        f
        for c in calls
        if (f := program.values.callee(c, group.scope)) is not None
    ]
    for node in [*nodes, *(n for helper in helpers for n in own_nodes(helper))]:
        if manual_update(node):
            return Refusal(
                "step-elsewhere",
                node,
                "parameters are updated by hand, without an optimizer that GradScaler could step",
            )
    return None


def _stepped_by_unknown(program: Program, group: Group) -> Refusal | None:
    """`opt.step()` of what nothing in sight makes, also in the method or lambda that is called."""
    for statement in group.training(program):
        for node in shallow(statement):
            if not isinstance(node, ast.Call):
                continue
            step = _unknown_step(program, node, group.scope)
            if step is not None:
                return Refusal(
                    "optimizer-not-in-sight",
                    node,
                    f"`{ast.unparse(step)}` (line {step.lineno}) may step an optimizer: nothing "
                    "in sight says what it is",
                )
    return None


def _unknown_step(
    program: Program, call: ast.Call, scope: Scope, deep: int = 2
) -> ast.Call | None:
    is_bare = not call.args and not call.keywords
    if is_bare and _is_unknown_stepper(program, call.func, scope):
        return call
    function = program.values.callee(call, scope)
    if function is None or not deep:
        return None
    inside = program.scope(function)
    found = (
        _unknown_step(program, one, inside, deep - 1) for one in inside.calls
    )
    return next((one for one in found if one is not None), None)


def _is_unknown_stepper(
    program: Program, method: ast.expr, scope: Scope
) -> bool:
    if not (isinstance(method, ast.Attribute) and method.attr == "step"):
        return False
    name = (dotted_name(method.value) or "").rpartition(".")[2]
    value = program.values.of(method.value, scope)
    if value.kind is Kind.UNKNOWN:
        return not scheduler_name(name)
    # `self.step = self.optim.step`: a method that an object is given says nothing.
    home, cls = value.foreign or (program, value.cls)
    return (
        cls is not None
        and home.graph.method(cls, "step") is None
        and "self.step" in home.module.scopes[cls].bindings
    )


def _stepped_apart(program: Program, group: Group) -> Refusal | None:
    """A step in another function, that nothing joins with this backward."""
    if isinstance(group.scope.node, ast.Module):
        return None
    others = [s for s in program.module.scopes.values() if s is not group.scope]
    steps = [(call, s) for s in others for call in program.effects.steps(s)]
    if not steps or program.effects.steps(group.scope):
        return None
    if never_stepped(program, group):
        return None
    backward = group.backwards[0]
    free = [s for s in steps if not _has_backward(program, s[1])]
    if not free:
        why = "no call that was read joins these gradients with a step: each function that "
        why += "steps goes backward itself"
        return Refusal(
            "step-elsewhere", backward, f"{why}. {_left(program, group)}"
        )
    runs = {
        where: _run_of_forward(program, group.scope, where) for _, where in free
    }
    joined = [one for one in free if runs[one[1]] is not None]
    near = joined or free
    here = [s for s in near if s[1].module is group.scope.module]
    call, where = min(
        here or near, key=lambda one: abs(one[0].lineno - backward.lineno)
    )
    file = "" if here else f" of {where.module.path}"
    what = f"`{ast.unparse(call)}` in line {call.lineno}{file} (`{where.qualname}`)"
    why = "is the nearest step, and no call that was read leads to it and to this backward"
    run = runs[where]
    if run is not None:
        place = place_of(program, run)
        why = (
            f"steps on what this `forward` leaves, which `{ast.unparse(run.func)}` runs there "
            f"({place}): what is called as a model may be wrapped, and its backward out of reach"
        )
    return Refusal("step-elsewhere", backward, f"{what} {why}")


def _run_of_forward(
    program: Program, scope: Scope, where: Scope
) -> ast.Call | None:
    """The call of a model in `where` that runs the `forward` which `scope` is."""
    forward = scope.node
    if not isinstance(forward, FUNCTIONS) or forward.name != "forward":
        return None
    for call in where.calls:
        cls = program.values.of(call.func, where).cls
        if cls is not None and program.graph.method(cls, "forward") is forward:
            return call
    return None


def _left(program: Program, group: Group) -> str:
    """What becomes of gradients that nothing steps on."""
    nodes = (n for one in group.training(program) for n in nodes_in(one))
    if any(map(program.effects.reads_gradients, nodes)):
        return (
            "What reads them needs them without a scaler's factor: leave this in float32, and "
            "call it outside of autocast"
        )
    return "Where nothing steps on them, nothing is to be done"


def _has_backward(program: Program, scope: Scope) -> bool:
    """Whether a step in this scope is made for gradients of its own."""
    if program.effects.backwards(scope):
        return True
    called = (program.values.callee(call, scope) for call in scope.calls)
    return any(
        program.effects.of_function(one) & EventKind.BACKWARD
        for one in called
        if one is not None
    )


def check_optimizers(
    program: Program,
    scope: Scope,
    steps: list[ast.Call],
    *,
    asks_order: bool = False,
) -> None:
    """Refuse steps that GradScaler cannot make: closures, wrappers, other libraries' optimizers;
    `asks_order`: those that say that they are of second order turn AMP off.
    """
    for call in steps:
        assert isinstance(call.func, ast.Attribute)
        value = program.values.of(call.func.value, scope)
        _refuse_closure(program, scope, call, value)
        _refuse_wrapper(program, scope, call, value)
        if not value:
            _refuse_holder(scope, call.func.value)
        if value.kind is Kind.FOREIGN_OPTIMIZER and not (
            asks_order and _is_marked(value)
        ):
            raise Refusal(
                "not-a-torch-optimizer",
                call,
                f"GradScaler cannot drive `{value.name}`: {_why_not(value)}",
            )
        if not value and not handed_over(program, call.func.value, scope):
            raise Refusal(
                "optimizer-not-in-sight",
                call,
                _why_unseen(program, call.func.value),
                files=_of_holder(program, call.func.value, scope),
            )
        _refuse_given_back(program, call, call.func.value, scope)


def _refuse_given_back(
    program: Program, step: ast.Call, optimizer: ast.expr, scope: Scope
) -> None:
    made = given_back(program, optimizer, scope)
    if made is not None:
        raise Refusal(
            "optimizer-not-in-sight",
            step,
            f"`{ast.unparse(made.func)}` ({place_of(program, made)}) is handed the "
            "optimizer, and nothing in sight shows what it gives back for it",
        )
    put = attached(program, optimizer, scope)
    if put is not None:
        raise Refusal(
            "not-a-torch-optimizer",
            step,
            f"`{ast.unparse(put.func)}` ({place_of(program, put)}) puts a step of its library's "
            "in the place of the optimizer's, which GradScaler cannot drive",
        )


def _why_unseen(program: Program, expr: ast.expr) -> str:
    """What an optimizer is taken from that nobody followed, `net, opt = state`; else what is said
    where nothing sets it.
    """
    name, dotted = ast.unparse(expr), dotted_name(expr)
    bindings = program.reaching.at(expr, dotted).bindings if dotted else ()
    taken = [one for one in bindings if one.index is not None and one.value]
    if taken and len(taken) == len(bindings) and taken[0].value is not None:
        source = f"`{ast.unparse(taken[0].value)}`"
        where = place_of(program, taken[0].statement)
        return (
            f"`{name}` is a part of {source} ({where}), which was not followed to what makes it: "
            "hand on the optimizer by itself"
        )
    return f"nothing in {what_was_read(program)} shows what `{name}` is or where it is made"


def _refuse_wrapper(
    program: Program, scope: Scope, call: ast.Call, value: Value
) -> None:
    around = program.graph.class_around(scope)
    inside = value.cls is not None and value.cls is around
    if value.kind is Kind.WRAPPER and not inside:
        raise Refusal(
            "optimizer-wrapper",
            call,
            f"`{value.name or ast.unparse(call.func)}` has a step of its own and no "
            "param_groups for GradScaler",
        )


def _refuse_holder(scope: Scope, optimizer: ast.expr) -> None:
    """Refuse what nothing in sight makes, and of which `opt.optimizer.zero_grad()` is asked."""
    held = f"{ast.unparse(optimizer)}."
    for call in scope.calls:
        inner, _, method = ast.unparse(call.func).rpartition(".")
        if inner.startswith(held) and method in library_optimizers.METHODS:
            raise Refusal(
                "optimizer-wrapper",
                call,
                f"`{ast.unparse(optimizer)}` is no optimizer of torch, for it holds one: "
                f"`{inner}.{method}`",
            )


def _refuse_closure(
    program: Program, scope: Scope, call: ast.Call, value: Value
) -> None:
    """Refuse LBFGS, functions that are handed to a step, and what torch takes for one."""
    given = [*call.args, *(one.value for one in call.keywords)]
    given = [
        one
        for one in given
        if not (isinstance(one, ast.Constant) and one.value is None)
    ]
    is_known = value.kind in (Kind.OPTIMIZER, Kind.OPTIMIZERS)
    if (
        value.name is not None
        and value.name.endswith(".LBFGS")
        or any(_is_function(program, one, scope) for one in given)
    ):
        message = "the step evaluates the loss itself, several times; GradScaler does not support "
        raise Refusal("step-with-closure", call, f"{message}closures")
    if (
        given
        and is_known
        and not takes_no_closure(program, value, call.args, call.keywords)
    ):
        taken = ast.unparse(given[0])
        message = f"the step gets `{taken}`, which an optimizer of torch takes for a closure"
        raise Refusal("step-with-closure", call, message)
    if given and not value:
        name = (
            ast.unparse(call.func.value)
            if isinstance(call.func, ast.Attribute)
            else "it"
        )
        raise Refusal(
            "optimizer-not-in-sight",
            call,
            f"nothing in {what_was_read(program)} shows what `{name}` is, whose step gets "
            f"`{ast.unparse(given[0])}`",
        )


def _is_function(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """A lambda, a function in sight, or one that is made of it."""
    if isinstance(expr, ast.Call):
        return program.canonical(expr.func) == "functools.partial"
    if (
        isinstance(expr, ast.Lambda)
        or program.graph.function_at(expr, scope) is not None
    ):
        return True
    dotted = dotted_name(expr)
    bindings = (
        program.reaching.at(expr, dotted).bindings if dotted is not None else ()
    )
    return any(
        isinstance(one.value, ast.Lambda) or one.how == "def"
        for one in bindings
    )


def _of_holder(
    program: Program, optimizer: ast.expr, scope: Scope
) -> tuple[str, ...]:
    """The file of the class of `agent`, which may make `agent.optimizer`."""
    if not isinstance(optimizer, ast.Attribute):
        return ()
    foreign = program.values.of(optimizer.value, scope).foreign
    return () if foreign is None else (resolved(foreign[0].module.path),)


def _is_marked(value: Value) -> bool:
    row = library_optimizers.optimizer(value.name)
    return row is not None and row.marked


def _why_not(value: Value) -> str:
    """Why an optimizer's steps cannot go through a scaler."""
    row = library_optimizers.optimizer(value.name)
    return row.reason if row is not None else "its scaling rules are its own"
