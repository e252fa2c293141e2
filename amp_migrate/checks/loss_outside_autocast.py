"""The loss is computed from half-precision outputs after the autocast region has ended."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._following import following
from amp_migrate.checks._half_arithmetic import computes_in_half
from amp_migrate.checks._layers_behind import calls_behind, gives_to_layer
from amp_migrate.checks._loss_steps import loss_steps
from amp_migrate.checks._region_values import bare_uses, half_names, note
from amp_migrate.checks._regions import (
    Region,
    region_of,
    regions,
    without_gradients,
)
from amp_migrate.config import Settings
from amp_migrate.model.calls.targets import targets
from amp_migrate.model.conditions.arms import are_exclusive
from amp_migrate.model.forwards.losses import callables
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.values.kinds import Kind
from amp_migrate.rewrite.edits import InsertAfter, Template
from amp_migrate.torch_facts.methods import WIDENS

RULE = Rule("loss-outside-autocast", severity="warning")
_LOSSES = (
    "_loss",
    "cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
)
_LOGARITHMS = ("torch.nn.functional.log_softmax", "torch.log_softmax")
_DEEP = 2
"""How far the methods that a criterion calls are looked into."""
_CASTS = {*WIDENS, "float32", "float64", "autocast"}
_MESSAGE = (
    "the loss runs in half precision here, which rounds or overflows; compute it in the "
    "autocast block, or cast with `.float()`"
)
_LAYER = (
    "the layer's parameters are float32 here and what it gets is half precision, so this raises; "
    "run it in an autocast block, or cast with `.float()`"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find losses of a region's outputs in the statements behind it."""
    for region in regions(program):
        if (
            region.off
            or not isinstance(region.node, ast.With)
            or region.dtype == "float32"
            or without_gradients(program, region.node)
        ):
            continue
        names = half_names(program, region)
        outer = region_of(program, region.node)
        if names and (outer is None or outer.off):
            yield from _told(program, region, region.node, names)


def _told(
    program: Program, region: Region, node: ast.With, names: set[str]
) -> Iterator[Finding]:
    code = Code(program, node)
    for statement in following(program, node):
        losses = [
            *(
                call
                for call in _losses(program, statement, region.scope)
                if not _is_apart(program, call, region)
            ),
            *_losses_with_autocast_off(program, statement, region.scope),
        ]
        made = names - _rebound(statement)
        for call in losses:
            if any(
                bare_uses(argument, made)
                and _may_be_half(program, argument, region.scope)
                for argument in call.args[:1]
            ):
                yield finding_at(
                    program,
                    call,
                    RULE,
                    _MESSAGE,
                    related=[(node, "the autocast block")],
                    fix=_fix(code, region, statement),
                )
        for call in calls_behind(statement):
            if call not in losses and _runs_layer(program, call, region, made):
                place = [(node, "the autocast block")]
                yield finding_at(program, call, RULE, _LAYER, related=place)
        note(program, statement, region.scope, names, may_start=False)
        names -= _rebound(statement)


def _runs_layer(
    program: Program, call: ast.Call, region: Region, made: set[str]
) -> bool:
    return not _is_apart(program, call, region) and gives_to_layer(
        program, call, region.scope, made
    )


def _may_be_half(
    program: Program,
    expr: ast.expr,
    scope: Scope,
) -> bool:
    """Not a part of what a model gives that it computes in float32."""
    fact = program.precision.inference.of(expr, scope)
    return fact.dtypes != DType.FLOAT


def _is_apart(program: Program, call: ast.Call, region: Region) -> bool:
    """Whether a call runs in a region of its own, or only where the region is left out."""
    own = region_of(program, call)
    return (own is not None and not own.off) or are_exclusive(
        program, region.node, call
    )


def _losses(
    program: Program, statement: ast.stmt, scope: Scope
) -> Iterator[ast.Call]:
    if isinstance(
        statement, (ast.With, ast.For, ast.While, *FUNCTIONS, ast.ClassDef)
    ):
        return
    for node in shallow(statement):
        if (
            isinstance(node, ast.Call)
            and node.args
            and (
                _is_loss(program, node, scope)
                or (
                    _begins_loss(program, node, scope)
                    and _feeds_backward(program, statement, scope)
                )
            )
        ):
            yield node


def _begins_loss(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call gives the logarithms of probabilities, or runs a function in sight that
    computes a loss of the library and casts nothing.
    """
    if program.canonical(call.func) in _LOGARITHMS:
        return True
    runs = dict.fromkeys(targets(program, call, scope))
    for _ in range(_DEEP):
        runs |= dict.fromkeys(
            function
            for one in runs
            for inner in program.scope(one).calls
            for function in program.values.callees(inner, program.scope(one))
        )
    inner = [node for one in runs for node in nodes_in(one)]
    names = {node.attr for node in inner if isinstance(node, ast.Attribute)}
    if names & _CASTS:
        return False
    return any(
        isinstance(node, ast.Call) and _is_functional(program, node.func)
        for node in inner
    ) or any(
        computes_in_half(program, one, call, scope)
        for one in targets(program, call, scope)
    )


def _losses_with_autocast_off(
    program: Program, statement: ast.stmt, scope: Scope
) -> Iterator[ast.Call]:
    """Calls in a region that is off, which give what a backward starts from: no operator is
    converted there, so half-precision outputs stay that. What is in sight may cast them itself.
    """
    off = any(one.node is statement and one.off for one in regions(program))
    if not off or not isinstance(statement, ast.With):
        return
    for inner in statement.body:
        for node in shallow(inner):
            if (
                isinstance(node, ast.Call)
                and node.args
                and not _casts(program, node, scope)
                and _feeds_backward(program, inner, scope)
            ):
                yield node


def _casts(
    program: Program,
    call: ast.Call,
    scope: Scope,
) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in WIDENS
        for function in targets(program, call, scope)
        for node in nodes_in(function)
    )


def _feeds_backward(
    program: Program, statement: ast.stmt, scope: Scope
) -> bool:
    """Whether a statement is a step of a loss that is differentiated."""
    for call in scope.calls:
        if program.events.what(call, scope) is not EventKind.BACKWARD:
            continue
        loss = call.func.value if isinstance(call.func, ast.Attribute) else call
        here = program.module.statement_of(call)
        steps = loss_steps(program, loss, here, scope)
        if any(step is statement for step in steps):
            return True
    return False


def _is_loss(program: Program, call: ast.Call, scope: Scope) -> bool:
    if _is_functional(program, call.func):
        return True
    behind = callables(program, call, scope)
    if behind and all(_is_functional(one[0], one[1]) for one in behind):
        return True
    if program.effects.is_bce(call, scope):
        # it belongs outside; whether its probabilities are float32 is `bce-under-autocast`'s and
        # the model's
        return False
    value = program.values.of(call.func, scope)
    return value.kind is Kind.CRITERION and (value.name or "").startswith(
        "torch.nn."
    )


def _is_functional(program: Program, func: ast.AST) -> bool:
    name = program.canonical(func) if isinstance(func, ast.expr) else None
    return (name or "").startswith("torch.nn.functional.") and (
        name or ""
    ).endswith(_LOSSES)


def _rebound(statement: ast.stmt) -> set[str]:
    """Names that an inner statement gives another value."""
    if isinstance(statement, ast.Assign):
        return set()
    return {
        n.id
        for n in shallow(statement)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def _fix(code: Code, region: Region, statement: ast.stmt) -> Fix | None:
    behind = code.after(region.node)
    if (
        not behind
        or behind[0] is not statement
        or not isinstance(statement, ast.Assign)
    ):
        return None
    last = code.span(region.node.body[-1])
    moved = InsertAfter(last, (Template("$0", (code.span(statement),)),))
    return Fix(
        "safe",
        "compute the loss in the autocast block",
        (code.remove(statement), moved),
    )
