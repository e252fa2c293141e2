"""Reasons to leave a loop alone that are seen before any plan is made (amp-semantics section 6)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.gradients.own_graphs import begins_graph
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, returned, shallow
from amp_migrate.planner.files.vicinity import (
    callers_of_scope,
    files_near,
    reach_of,
)
from amp_migrate.planner.gradients.given_gradients import refuse_vector
from amp_migrate.planner.gradients.second_order import (
    keeps_graph,
    marked_optimizers,
)
from amp_migrate.planner.preconditions.already_half import refuse_half
from amp_migrate.planner.preconditions.anomaly_detection import (
    refuse_anomaly_detection,
)
from amp_migrate.planner.preconditions.cast_by_hand import refuse_cast_by_hand
from amp_migrate.planner.refusal import Refusal, Skip, place_of
from amp_migrate.planner.regions.forwards_that_train import refuse_forward
from amp_migrate.project.module_graph import Project
from amp_migrate.torch_facts.amp_api import AMP_PREFIXES
from amp_migrate.torch_facts.frameworks import SHARDS
from amp_migrate.torch_facts.layers import COMPILES

_FRAMEWORK_OWNERS = {
    "accelerator": "accelerate",
    "accelerate": "accelerate",
    "fabric": "Fabric",
    **dict.fromkeys(
        ("engine", "model_engine", "ds_engine", "deepspeed_engine"), "DeepSpeed"
    ),
}
_TWO_PASS = {"first_step", "second_step", "ascent_step", "descent_step"}


def amp_of(program: Program, scope: Scope) -> ast.expr | None:
    """Where the loop has AMP: in its scope, in what it calls, in its callers, in a model class, or
    at module level; None where it has none.
    """
    text = program.module.text
    if (
        "autocast" not in text
        and "GradScaler" not in text
        and "amp" not in text
    ):
        return None
    mentions = program.remembered("mentions of AMP", lambda: _mentions(program))
    if not mentions:
        return None
    functions = {
        id(function)
        for function in [
            *reach_of(program, scope),
            *callers_of_scope(program, scope),
        ]
    }
    near = {id(file) for file in files_near(program, scope)}
    return next(
        (n for n in mentions if _runs_with(program, n, functions, near)), None
    )


def _runs_with(
    program: Program,
    node: ast.AST,
    functions: set[int],
    near: set[int],
    hops: int = 3,
) -> bool:
    """Whether `node` stands in one of `functions`, or outside of functions in a file of `near`."""
    around = _functions_around(program, node)
    if around:
        return any(id(function) in functions for function in around) or any(
            _runs_with(program, call, functions, near, hops - 1)
            for call in (_calls_for(program, node, around) if hops else ())
        )
    return id(program.module.scope_of(node).module) in near


def _calls_for(
    program: Program, node: ast.AST, around: list[ast.AST]
) -> Iterator[ast.Call]:
    """The calls of a function that returns `node`, a context that its caller enters."""
    maker = around[0]
    if not isinstance(maker, FUNCTIONS):
        return
    above = {id(parent) for parent in program.module.ancestors(node)}
    if any(id(value) in above for value in returned(maker)):
        for site in program.graph.sites(maker):
            if all(
                site.call is not parent
                for parent in program.module.ancestors(node)
            ):
                yield site.call


def _mentions(program: Program) -> list[ast.Attribute | ast.Name]:
    return [
        n
        for n in program.module.parents
        if isinstance(n, (ast.Attribute, ast.Name)) and _is_amp(program, n)
    ]


def _is_amp(program: Program, node: ast.Attribute | ast.Name) -> bool:
    name = program.canonical(node)
    # What a function says about autocast for the case that it is on turns nothing on.
    said = name is not None and name.endswith((".custom_fwd", ".custom_bwd"))
    return name is not None and name.startswith(AMP_PREFIXES) and not said


def _functions_around(program: Program, node: ast.AST) -> list[ast.AST]:
    """The plain functions around a node; none at module level and in classes."""
    found: list[ast.AST] = []
    for parent in program.module.ancestors(node):
        if isinstance(parent, ast.ClassDef):
            return []
        if isinstance(parent, FUNCTIONS):
            found.append(parent)
    return found


def framework_backwards(
    program: Program,
) -> Iterator[tuple[Scope, ast.Call, str]]:
    """`accelerator.backward(loss)`, `self.manual_backward(loss)` and the like, with the
    framework's name.
    """
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if not isinstance(call.func, ast.Attribute) or not (
                call.args or call.keywords
            ):
                continue
            owner = (dotted_name(call.func.value) or "").rpartition(".")[2]
            if call.func.attr == "manual_backward":
                yield scope, call, "Lightning"
            elif call.func.attr == "backward" and owner in _FRAMEWORK_OWNERS:
                yield scope, call, _FRAMEWORK_OWNERS[owner]


def screen(
    program: Program,
    scope: Scope,
    backwards: list[ast.Call],
    *,
    scaled: bool = True,
) -> None:
    """Raise Skip or Refusal for what no plan can mend; `scaled` False (bfloat16) leaves out what
    only a scaler forbids.
    """
    mention = amp_of(program, scope)
    if mention is not None:
        where = program.module.scope_of(mention).module
        what = "this file already uses AMP"
        if where is not scope.module:
            what = f"{where.path}, which it runs with, uses AMP (line {mention.lineno})"
        raise Skip(
            "already-amp",
            backwards[0],
            f"{what}; `amp-migrate lint` checks how",
        )
    _skip_scaled(program, scope, backwards)
    _refuse_distributed(program, backwards)
    _refuse_compiled(program, scope)
    if scaled:
        _refuse_two_pass(scope)


def _skip_scaled(
    program: Program, scope: Scope, backwards: list[ast.Call]
) -> None:
    """Raise Skip where a scaler that is made in another file steps or unscales."""
    for call in scope.calls:
        if program.events.what(call, scope) in (
            EventKind.SCALER_STEP,
            EventKind.UNSCALE,
        ):
            why = f"`{ast.unparse(call.func)}` in line {call.lineno} is a scaler's: this loop uses "
            raise Skip(
                "already-amp",
                backwards[0],
                f"{why}AMP; `amp-migrate lint` checks how",
            )


def screen_training(
    program: Program,
    scope: Scope,
    backwards: list[ast.Call],
    *,
    project: Project | None = None,
    scaled: bool = True,
) -> list[ast.expr]:
    """Raise Refusal for loops that do train, in a way that no plan can keep; `scaled` as in
    `screen`. Gives the optimizers for which AMP is off where they are of second order.
    """
    marked = [
        optimizer
        for function in reach_of(program, scope)
        for optimizer in marked_optimizers(program, function)
    ]
    if marked and not scaled:
        raise keeps_graph(backwards[0])
    refuse_half(program, scope)
    refuse_cast_by_hand(program, scope, backwards)
    refuse_forward(program, project or Project(), scope, backwards[0])
    if scaled:
        refuse_anomaly_detection(
            program, project or Project(), scope, backwards
        )
    for call in backwards if scaled else ():
        refuse_vector(program, call, scope)
        _refuse_own_graph(program, call, scope)
    return marked


def _refuse_own_graph(program: Program, call: ast.Call, scope: Scope) -> None:
    """Raise Refusal where a loss is made a leaf before its backward."""
    leaf = begins_graph(program, call, scope)
    if leaf is None:
        return
    raise Refusal(
        "step-without-gradients",
        call,
        f"`{ast.unparse(leaf)}` ({place_of(program, leaf)}) keeps the loss and not what it was "
        "computed from: this backward gives no parameter a gradient, and the optimizer's step does "
        "nothing, where GradScaler.step raises",
    )


def _refuse_distributed(program: Program, backwards: list[ast.Call]) -> None:
    for name in _imported_near(program, backwards[0]):
        if name.startswith("torch.distributed.autograd"):
            raise _on_other_machines(backwards[0])
        if name.partition(".")[0] == "higher":
            raise Refusal(
                "double-backward",
                backwards[0],
                "`higher` differentiates through the optimizer's steps",
            )
        if name.startswith(SHARDS):
            what = "autocast would keep a half copy of every weight, MixedPrecisionPolicy does not"
            if _is_given(program, name, "mp_policy", "mixed_precision"):
                raise Skip(
                    "already-amp",
                    backwards[0],
                    f"`{name}` is given the precision of the parameters that it shards",
                )
            if not name.endswith("fully_shard"):
                what = (
                    "found_inf must be shared between ranks (ShardedGradScaler)"
                )
            raise Refusal(
                "sharded", backwards[0], f"`{name}` shards parameters: {what}"
            )


def _is_given(program: Program, name: str, *keywords: str) -> bool:
    """Whether each call of a function, of which there is one, passes one of some keywords."""
    calls = [
        call
        for scope in program.module.scopes.values()
        for call in scope.calls
        if program.canonical(call.func) == name
    ]
    return bool(calls) and all(
        any(one.arg in keywords for one in call.keywords) for call in calls
    )


def _on_other_machines(node: ast.AST) -> Refusal:
    return Refusal(
        "distributed-autograd",
        node,
        "backward runs on other machines too, out of a scaler's reach",
    )


def refuse_remote(program: Program, backwards: list[ast.Call]) -> None:
    """Raise Refusal where modules may live on other machines, after every nearer reason was looked
    for.
    """
    if any(
        name.startswith("torch.distributed.rpc")
        for name in _imported_near(program, backwards[0])
    ):
        raise _on_other_machines(backwards[0])


def _imported_near(program: Program, node: ast.AST) -> list[str]:
    files = files_near(program, program.module.scope_of(node))
    return [name for file in files for name in file.imports.names.values()]


def _refuse_compiled(program: Program, scope: Scope) -> None:
    function = scope.node
    if not isinstance(function, FUNCTIONS):
        return
    marks = [
        d.func if isinstance(d, ast.Call) else d
        for d in function.decorator_list
    ]
    wrapped = program.remembered(_compiled, lambda: _compiled(program))
    if function.name in wrapped or any(
        program.canonical(mark) in COMPILES for mark in marks
    ):
        raise Refusal(
            "compiled-step",
            function,
            (
                "backward and step are compiled, and GradScaler's methods cannot be: compile the "
                "model instead"
            ),
        )


def _compiled(program: Program) -> frozenset[str]:
    """The last names of what is handed to `torch.compile`."""
    return frozenset(
        (dotted_name(call.args[0]) or "").rpartition(".")[2]
        for scope in program.module.scopes.values()
        for call in scope.calls
        if call.args and program.canonical(call.func) == "torch.compile"
    )


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a function evaluates itself, nested functions and classes left out."""
    body = getattr(function, "body", None)
    yield from nodes_in(body if isinstance(body, list) else ())


def nodes_in(statements: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes that statements evaluate themselves."""
    for statement in statements:
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            yield from shallow(statement)


def is_false(expr: ast.expr) -> bool:
    """A literal that is false."""
    return isinstance(expr, ast.Constant) and not expr.value


def two_pass_steps(scope: Scope) -> list[ast.Call]:
    """`optimizer.first_step()` and its kin: SAM and the like take two backwards for one step."""
    return [
        c
        for c in scope.calls
        if isinstance(c.func, ast.Attribute) and c.func.attr in _TWO_PASS
    ]


def _refuse_two_pass(scope: Scope) -> None:
    for call in two_pass_steps(scope):
        what = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        raise Refusal(
            "two-pass-optimizer",
            call,
            (
                f"`{what}` steps between two backwards, on gradients that would carry the "
                "scaler's factor; --dtype bfloat16 needs no scaler"
            ),
        )
