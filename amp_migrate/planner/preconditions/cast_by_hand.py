"""Parameters or gradients that a program gives another dtype itself while it trains: `p.grad.data =
p.grad.data.float()` before the step says that the model is half in between.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, LOOPS, Function, Scope
from amp_migrate.model.syntax.queries import holds, names_in, nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.files.vicinity import callers_of_scope
from amp_migrate.planner.optimizers.asked_models import asked_models
from amp_migrate.planner.preconditions.already_half import (
    under_option,
    values_given,
)
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.planner.steps.step_calls import elsewhere
from amp_migrate.torch_facts.amp_api import DOUBLES, FLOAT32, HALVES

_MENTIONED = re.compile(
    r"\.(data|grad)\s*=[^=\n]*\.(half|bfloat16|float|double|to|type)\("
)
_CASTS = ("half", "bfloat16", "float", "double")
_DTYPES = {*HALVES, *FLOAT32, *DOUBLES}
_PARAMETERS = ("parameters", "named_parameters", "param_groups")
_OF_LAYERS = ("weight", "bias")


@dataclass(frozen=True, eq=False)
class _Cast:
    """An assignment that gives a parameter or its gradient another dtype, and its program."""

    program: Program
    node: ast.Assign
    narrows: bool
    """Whether it takes the dtype away from float32."""


def refuse_cast_by_hand(
    program: Program, scope: Scope, backwards: list[ast.Call]
) -> None:
    """Raise Refusal where what a loop trains is cast between its backward and its step, or made
    half before it.
    """
    leading = callers_of_scope(program, scope)
    for node in leading:
        home = program.module.scopes[node]
        anchors = (
            backwards
            if home is scope
            else [c for c in home.calls if _leads(program, c, home, leading)]
        )
        if not anchors:
            continue
        for at, cast in _casts_run_by(program, home):
            if _while_training(program, home, at, anchors) or (
                cast.narrows
                and _line(at) < max(map(_line, anchors))
                and _stays_half(program, home, at)
            ):
                raise _refusal(at, cast)


def _refusal(at: ast.AST, cast: _Cast) -> Refusal:
    place = place_of(cast.program, cast.node)
    option = under_option(cast.program, cast.node)
    return Refusal(
        "already-half",
        at,
        f"`{ast.unparse(cast.node)}` ({place}) casts what is trained by hand{option}: GradScaler "
        "and autocast are for float32 parameters and gradients",
    )


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _leads(
    program: Program,
    call: ast.Call,
    scope: Scope,
    leading: Sequence[ast.AST],
) -> bool:
    function = program.values.callee(call, scope)
    return function is not None and any(function is one for one in leading)


def _while_training(
    program: Program, scope: Scope, at: ast.AST, anchors: Sequence[ast.AST]
) -> bool:
    """Whether a node runs in a loop with a backward, or between one and a step."""
    module = program.module
    loops = {id(a) for a in module.ancestors(at) if isinstance(a, LOOPS)}
    for anchor in anchors:
        if any(id(one) in loops for one in module.ancestors(anchor)):
            return True
        if _line(anchor) < _line(at) and any(
            _line(call) > _line(at)
            and program.effects.of_statement(module.statement_of(call), scope)
            & EventKind.STEP
            for call in scope.calls
        ):
            return True
    return False


def _stays_half(program: Program, scope: Scope, at: ast.AST) -> bool:
    """Whether an optimizer of a scope holds what a node casts, and no `.float()` comes after it."""
    names = set(_cast_names(program, at)) - {None}
    made = (c for c in scope.calls if c is not at)
    back = {
        dotted_name(c.func.value)
        for c in scope.calls
        if isinstance(c.func, ast.Attribute)
        and c.func.attr == "float"
        and _line(c) > _line(at)
    }
    return any(
        (names - back) & _held(program, call)
        for call in made
        if program.values.kind(call, scope) is Kind.OPTIMIZER
    )


def _held(program: Program, made: ast.Call) -> set[str | None]:
    """The names of what an optimizer is made of."""
    models = asked_models(program, made)
    return {*names_in(made), *(dotted_name(one) for one in models)}


def _cast_names(program: Program, at: ast.AST) -> Iterator[str | None]:
    """The names that a call is handed, or over whose parameters the loop around goes."""
    if isinstance(at, ast.Call):
        yield from map(dotted_name, at.args)
        return
    for around in _inside(program, at):
        if isinstance(around, ast.For):
            yield from names_in(around.iter)


def _casts_run_by(
    program: Program, scope: Scope
) -> Iterator[tuple[ast.AST, _Cast]]:
    """The casts of a scope and of the functions that it calls, each with the node of the scope."""
    for node in _assigned(program, scope):
        cast = _cast(program, node)
        loops = (a for a in _inside(program, node) if isinstance(a, ast.For))
        if cast is not None and not any(
            _is_of_copy(program, nodes_in(loop.iter)) for loop in loops
        ):
            yield node, cast
    for call in scope.calls:
        if _converts(program, call) and not _is_of_copy(program, call.args):
            for cast in _casts_of_call(program, call, scope):
                yield call, cast


def _converts(program: Program, call: ast.Call) -> bool:
    """`convert(model)`, `model = convert(model)`: a call that makes a model, `model = load(path)`,
    may cast it within, and back.
    """
    above = program.module.parents[call]
    if isinstance(above, ast.Assign):
        target = dotted_name(above.targets[0])
        return any(target == dotted_name(one) for one in call.args)
    return isinstance(above, ast.Expr)


def _assigned(program: Program, scope: Scope) -> Iterator[ast.Assign]:
    """The assignments of a scope's own statements, where the text has a cast at all."""
    if _MENTIONED.search(program.module.text):
        for node in program.module.parents:
            if isinstance(node, ast.Assign):
                if program.module.scope_of(node) is scope:
                    yield node


def _is_of_copy(program: Program, exprs: Iterable[ast.AST]) -> bool:
    """Whether a name of some is a copy of a model: what is done to that is not trained."""
    for one in exprs:
        values = (
            list(values_given(program, one))
            if isinstance(one, ast.Name)
            else []
        )
        if values and all(
            isinstance(value, ast.Call)
            and program.canonical(value.func) == "copy.deepcopy"
            for value in values
        ):
            return True
    return False


def _casts_of_call(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[_Cast, ...]:
    own = program.values.callee(call, scope)
    found = (
        (program, own) if own is not None else elsewhere(program, call, scope)
    )
    if found is None or not _MENTIONED.search(found[0].module.text):
        return ()
    home, function = found
    return home.remembered(
        (refuse_cast_by_hand, function),
        lambda: tuple(_casts_of(home, function)),
    )


def _casts_of(program: Program, function: Function) -> Iterator[_Cast]:
    """The casts of a function, of those inside of it, and of those that it calls."""
    seen: set[int] = set()
    wanted: list[Function] = [function]
    while wanted:
        here = wanted.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        for node in nodes_in(here):
            cast = (
                _cast(program, node) if isinstance(node, ast.Assign) else None
            )
            if cast is not None:
                yield cast
        inner = program.scope(here)
        called = (program.values.callee(one, inner) for one in inner.calls)
        wanted.extend(one for one in called if one is not None)


def _cast(program: Program, node: ast.Assign) -> _Cast | None:
    """`p.data = p.data.half()`, `p.grad = p.grad.to(torch.float32)`, of a parameter."""
    target, value = node.targets[0], node.value
    if not (
        isinstance(target, ast.Attribute)
        and target.attr in ("data", "grad")
        and isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
    ):
        return None
    owner = _tensor(dotted_name(target))
    if owner is None or owner != _tensor(dotted_name(value.func.value)):
        return None
    dtype = _dtype(program, value, value.func.attr)
    if dtype is None or not _is_trained(program, target):
        return None
    return _Cast(program, node, dtype not in ("float", *FLOAT32))


def _tensor(name: str | None) -> str | None:
    """`p` of `p.data`, `p.grad` of `p.grad.data`: the tensor whose values they are."""
    return name.removesuffix(".data") if name is not None else None


def _dtype(program: Program, value: ast.Call, method: str) -> str | None:
    """The dtype that a method gives a tensor."""
    if method in _CASTS:
        return method
    if method not in ("to", "type"):
        return None
    given = [*value.args, *(k.value for k in value.keywords)]
    names = (program.canonical(one) for one in given)
    return next((one for one in names if one in _DTYPES), None)


def _is_trained(program: Program, target: ast.Attribute) -> bool:
    """Whether a target belongs to a gradient, to a layer, or to a name that loops over
    parameters.
    """
    inner = target.value
    if target.attr == "grad" or (
        isinstance(inner, ast.Attribute) and inner.attr in ("grad", *_OF_LAYERS)
    ):
        return True
    return isinstance(inner, ast.Name) and any(
        isinstance(around, LOOPS[:2]) and _loops_over(around, inner.id)
        for around in _inside(program, target)
    )


def _inside(program: Program, node: ast.AST) -> Iterator[ast.AST]:
    """What is around a node in its function."""
    for around in program.module.ancestors(node):
        if isinstance(around, FUNCTIONS):
            return
        yield around


def _loops_over(loop: ast.For | ast.AsyncFor, name: str) -> bool:
    """`for p in model.parameters()`, `for _, p in model.named_parameters()`, `for p in
    group["params"]`; no copies beside them, which `zip` gives.
    """
    target = loop.target
    last = target.elts[-1] if isinstance(target, ast.Tuple) else target
    if not isinstance(last, ast.Name) or last.id != name:
        return False
    asked = loop.iter
    if isinstance(asked, ast.Subscript):
        key = asked.slice
        return isinstance(key, ast.Constant) and key.value == "params"
    zipped = isinstance(asked, ast.Call) and dotted_name(asked.func) == "zip"
    return not zipped and holds(
        asked,
        lambda n: isinstance(n, ast.Attribute) and n.attr in _PARAMETERS,
    )
