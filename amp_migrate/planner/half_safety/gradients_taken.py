"""Gradients that a region takes: by a backward pass of its own, or by code out of sight that is
handed a loss and the model, as the inner steps of meta-learning are.

`learner.adapt(loss)` of learn2learn and `gradient_update_parameters(model, loss)` of torchmeta call
`torch.autograd.grad` with `create_graph`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Kind, criterion_name
from amp_migrate.planner.half_safety.called_bodies import run_by
from amp_migrate.planner.half_safety.gradients_inside import (
    GRAD,
    must_be_float,
    refuse_backward,
)
from amp_migrate.planner.half_safety.reach import abroad, reachable
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.evaluation import computes_loss
from amp_migrate.planner.regions.statement_runs import Region
from amp_migrate.project.import_paths import resolved

_RUNS = EventKind.FORWARD | EventKind.CALLABLE


def refuse_taken(
    program: Program, regions: Iterable[tuple[Scope, Region]]
) -> None:
    """Raise Refusal where a region goes backward, or hands a loss and its model to code that
    nobody sees.
    """
    for scope, region in regions:
        _refuse_own(program, scope, region)
        _refuse_helpers(program, scope, region)
        for node, where in reachable(program, region.statements(), scope):
            refuse_backward(program, node, where)
            if isinstance(node, ast.Call) and _is_handed_both(
                program, node, where
            ):
                name = ast.unparse(node.func)
                raise must_be_float(
                    node,
                    f"`{name}` gets a loss and the model, and nothing in sight shows that it takes "
                    "none",
                    above=_is_given(node.func, where),
                )
        _refuse_abroad(program, scope, region)


def _refuse_abroad(program: Program, scope: Scope, region: Region) -> None:
    """Raise Refusal where a function of another file that a region runs takes gradients."""
    for home, function, _ in abroad(program, region.statements(), scope):
        inner = home.scope(function)
        for call in inner.calls:
            is_taken = home.canonical(call.func) == GRAD
            if is_taken or home.effects.is_backward(call, inner):
                raise must_be_float(
                    region.first, f"here `{function.name}` takes them"
                )


def _refuse_own(program: Program, scope: Scope, region: Region) -> None:
    """Raise Refusal where the body of a loop takes gradients of what a region computes:
    `fast = autograd.grad(loss, weights, create_graph=True)`.
    """
    for call in scope.calls:
        if program.canonical(call.func) != GRAD:
            continue
        for one in _outputs(call):
            if isinstance(one, ast.Name) and _is_made_in(program, one, region):
                raise must_be_float(
                    call,
                    f"`{ast.unparse(call.func)}` takes them of `{one.id}`",
                )


def _outputs(grad: ast.Call) -> list[ast.expr]:
    named = [k.value for k in grad.keywords if k.arg == "outputs"]
    return [*named, *grad.args[:1]]


def _refuse_helpers(program: Program, scope: Scope, region: Region) -> None:
    """Raise Refusal where what a region computes is handed to a function in sight that takes its
    gradients: `model.adapt(loss)`.
    """
    for call in scope.calls:
        for home, inner in run_by(program, call, scope):
            for given in _differentiated(home, call, inner):
                if _is_made_in(program, given, region):
                    raise must_be_float(
                        call,
                        f"`{ast.unparse(call.func)}` takes them of "
                        f"`{ast.unparse(given)}`",
                    )
            if home is not program:
                _refuse_backward_in(program, home, call, inner, region)


def _refuse_backward_in(
    program: Program,
    home: Program,
    call: ast.Call,
    inner: Scope,
    region: Region,
) -> None:
    """Raise Refusal where a function of a file that is not planned goes backward from what a
    region computes, which nothing scales there.
    """
    for asked in inner.calls:
        func = asked.func
        if not (
            home.effects.is_backward(asked, inner)
            and isinstance(func, ast.Attribute)
            and isinstance(func.value, ast.Name)
        ):
            continue
        given = argument(call, inner, func.value.id, inner.takes_receiver)
        if isinstance(given, ast.Name) and _is_made_in(program, given, region):
            path = home.module.path
            raise Refusal(
                "mixed-gradients",
                call,
                f"`{ast.unparse(call.func)}` goes backward from `{given.id}` "
                f"({path}:{asked.lineno}), where nothing scales it; give amp-migrate that file too",
                files=(resolved(path),),
            )


def _differentiated(
    home: Program, call: ast.Call, inner: Scope
) -> Iterator[ast.Name]:
    """The names that a call gives to parameters of which `torch.autograd.grad` is asked."""
    is_bound = inner.takes_receiver
    for asked in inner.calls:
        if home.canonical(asked.func) == GRAD:
            for one in _outputs(asked):
                name = one.id if isinstance(one, ast.Name) else ""
                given = argument(call, inner, name, is_bound)
                if isinstance(given, ast.Name):
                    yield given


def _is_made_in(program: Program, given: ast.Name, region: Region) -> bool:
    """Whether a statement of a region gives a name the value that it has here."""
    inside = region.statements()
    bindings = program.reaching.at(given, given.id).bindings
    return any(
        above in inside
        for one in bindings
        if one.statement is not None
        for above in (one.statement, *program.module.ancestors(one.statement))
    )


def _is_given(func: ast.expr, scope: Scope) -> bool:
    """Whether callers say of which class the object is: `vae.decompose(loss)` of a parameter."""
    head = (dotted_name(func) or "").partition(".")[0]
    home = scope.lookup(head)
    made = home.bindings[head] if home is not None else []
    return any(one.how == "parameter" for one in made)


def _is_handed_both(program: Program, call: ast.Call, scope: Scope) -> bool:
    given = [*call.args, *(one.value for one in call.keywords)]
    func = call.func
    holders = [func.value] if isinstance(func, ast.Attribute) else []
    return (
        any(_is_loss(program, one, scope) for one in given)
        and any(_is_run(program, one, scope) for one in (*holders, *given))
        and not _is_known(program, call, scope)
    )


def _is_loss(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """A name for what a criterion has just given."""
    if not isinstance(expr, ast.Name):
        return False
    if program.values.kind(expr, scope) is Kind.CRITERION:
        return False  # a function of outputs, which nobody differentiates
    bindings = program.reaching.at(expr, expr.id).bindings
    made = [one.value for one in bindings if one.index is None]
    return any(
        isinstance(one, ast.Call)
        and (computes_loss(program, one, scope) or _is_called_loss(one))
        for one in made
    )


def _is_called_loss(call: ast.Call) -> bool:
    """`self.loss_function(out, y)`, whatever the object was given for one."""
    name = dotted_name(call.func) or ""
    return criterion_name(name.rpartition(".")[2])


def _is_run(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether an expression names a model, or what this body runs as one."""
    name = dotted_name(expr)
    if name is None or name == scope.self_name:
        return False
    return program.values.kind(expr, scope) is Kind.MODEL or any(
        dotted_name(one.func) == name
        and program.effects.forward_of(one, scope) & _RUNS
        for one in scope.calls
    )


def _is_known(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call runs code in sight, a builtin, or what torch documents."""
    name = program.canonical(call.func)
    if name is not None and name.startswith(("torch.", "numpy.")):
        return True
    func = call.func
    own = isinstance(func, ast.Name) and scope.lookup(func.id) is None
    if (own and name is None) or program.values.callees(call, scope):
        return True
    abroad = program.values.abroad(func, scope)
    kind = program.values.kind(func, scope)
    return abroad is not None or kind in (Kind.MODEL, Kind.CRITERION)
