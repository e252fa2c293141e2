"""A model whose parameters are trained with a GradScaler is converted to half precision."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._half_parts import half_parts
from amp_migrate.checks._half_weights import bound_name, converts, half_models
from amp_migrate.checks._regions import without_gradients
from amp_migrate.config import Settings
from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Scope,
    returned,
)
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import SCALERS, Kind
from amp_migrate.rewrite.edits import ReplaceExpression, Template

RULE = Rule("half-model-or-inputs", severity="error")
_HOPS = 2
"""Functions and constructors that a model is handed on to."""
_MODEL = (
    "GradScaler refuses half-precision gradients, and fused optimizers lose the small updates: "
    "keep the weights in float32, "
    "autocast converts"
)
_OPTIMIZERS = (Kind.OPTIMIZER, Kind.FOREIGN_OPTIMIZER)
_INPUT = (
    "autocast converts inputs where it pays; `.half()` raises where it does not, and loses "
    "range: leave it out"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Conversions of models that an optimizer trains, and of what such a model gets, in files with
    a scaler.
    """
    if not _has_scaler(program):
        return
    for part in half_parts(program):
        yield finding_at(program, part, RULE, _MODEL)
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if not converts(program, call):
                continue
            name = bound_name(program, call)
            if name is None:
                continue
            if _is_frozen(program, name, scope):
                continue
            if _is_trained(program, name, scope):
                yield finding_at(
                    program,
                    call,
                    RULE,
                    _MODEL,
                    fix=_fix(
                        program, call, "float32 weights need twice the memory"
                    ),
                )
            elif _is_input(program, call, name, scope):
                yield finding_at(
                    program,
                    call,
                    RULE,
                    _INPUT,
                    fix=_fix(program, call, "inputs stay in float32"),
                )


def _has_scaler(program: Program) -> bool:
    made = any(True for _ in program.uses.calls(*SCALERS))
    return made or any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "scale"
        and "scaler" in (dotted_name(call.func.value) or "")
        for scope in program.module.scopes.values()
        for call in scope.calls
    )


def _is_trained(
    program: Program, name: str, scope: Scope, hops: int = _HOPS
) -> bool:
    """Whether an optimizer in the same function or class, or in those that are handed `name`, is
    made of its parameters.
    """
    around = program.graph.class_around(scope) if "." in name else None
    near = [
        other
        for other in program.module.scopes.values()
        if other is scope
        or around is not None
        and program.graph.class_around(other) is around
    ]
    if any(_optimizes(program, name, other) for other in near):
        return True
    return hops > 0 and any(
        _is_trained(program, inner, where, hops - 1)
        for inner, where in (
            *_handed_on(program, name, scope),
            *_given_back(program, name, scope),
            *((one, scope) for one in _parts_named(program, name, scope)),
        )
    )


def _optimizes(program: Program, name: str, scope: Scope) -> bool:
    return any(
        program.values.kind(call, scope) in _OPTIMIZERS
        and any(
            _asks_parameters(program, node, name, scope)
            for one in [*call.args, *(key.value for key in call.keywords)]
            for node in nodes_in(_listed(one, scope))
        )
        for call in scope.calls
    )


def _listed(expr: ast.expr, scope: Scope) -> ast.expr:
    """What a variable was given, where that is one thing: the parameters that train."""
    held = list[Binding]()
    if isinstance(expr, ast.Name):
        held = scope.bindings.get(expr.id, [])
    if len(held) != 1 or held[0].how != "assign":
        return expr
    return held[0].value or expr


def _is_frozen(program: Program, name: str, scope: Scope) -> bool:
    """Whether a model is frozen here: what trains of it came later, or was put into it."""
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "requires_grad_"
        and dotted_name(call.func.value) == name
        and any(
            isinstance(one, ast.Constant) and one.value is False
            for one in call.args
        )
        for call in scope.calls
    )


def _handed_on(
    program: Program, name: str, scope: Scope
) -> Iterator[tuple[str, Scope]]:
    """What `name` is called in the functions in sight that get it: the parameter, and the
    attribute that holds it.
    """
    for call in scope.calls:
        given = [*call.args, *(key.value for key in call.keywords)]
        if not any(dotted_name(one) == name for one in given):
            continue
        made = program.values.of(call, scope).cls
        init = program.graph.method(made, "__init__") if made else None
        for function in [init] if init else program.values.callees(call, scope):
            inner = program.scope(function)
            for parameter in inner.parameters():
                one = argument(call, inner, parameter.arg, inner.takes_receiver)
                if one is not None and dotted_name(one) == name:
                    yield parameter.arg, inner
                    yield from _kept(program, parameter.arg, inner)


def _given_back(
    program: Program, name: str, scope: Scope
) -> Iterator[tuple[str, Scope]]:
    """What callers call `name` that a function returns: `return vae.cuda(), unet.cuda()`."""
    function = scope.node
    if not isinstance(function, FUNCTIONS):
        return
    for result in returned(function):
        parts = result.elts if isinstance(result, ast.Tuple) else [result]
        for at, part in enumerate(parts):
            if _moved(part) != name:
                continue
            for site in program.graph.sites(function):
                target = _target(program, site.call, at, len(parts))
                if target is not None:
                    yield target, site.scope


def _parts_named(
    program: Program,
    name: str,
    scope: Scope,
) -> Iterator[str]:
    """Other names of parts of a model, unless they are frozen: `unet = pipe.unet`."""
    for own, bindings in scope.bindings.items():
        for one in bindings:
            value = _value_of(one)
            whole = dotted_name(value) if value is not None else None
            if whole is not None and whole.startswith(f"{name}."):
                if not _is_frozen(program, own, scope):
                    yield own


def _value_of(binding: Binding) -> ast.expr | None:
    """What a name is given, of `unet, vae = pipe.unet, pipe.vae` its own part."""
    value, at = binding.value, binding.index
    if binding.how != "assign" or at is None:
        return value if binding.how == "assign" else None
    is_written = isinstance(value, ast.Tuple) and at < len(value.elts)
    return value.elts[at] if is_written else None  # type: ignore[union-attr]


def _moved(expr: ast.expr) -> str | None:
    """`unet` of `unet.to(device)`, which is the same module."""
    while isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
        expr = expr.func.value
    return dotted_name(expr)


def _target(
    program: Program,
    call: ast.Call,
    at: int,
    of: int,
) -> str | None:
    """The variable that gets one of the values of a call."""
    statement = program.module.parents[call]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if of == 1:
        return dotted_name(target)
    is_whole = isinstance(target, ast.Tuple) and len(target.elts) == of
    return dotted_name(target.elts[at]) if is_whole else None  # type: ignore[attr-defined]


def _kept(
    program: Program, name: str, scope: Scope
) -> Iterator[tuple[str, Scope]]:
    """`self.model = model.to(device)`"""
    around = program.graph.class_around(scope)
    held = program.module.scopes[around].bindings if around is not None else {}
    for own, bindings in held.items():
        for binding in bindings:
            value = binding.value
            while isinstance(value, ast.Call) and isinstance(
                value.func, ast.Attribute
            ):
                value = value.func.value
            if isinstance(value, ast.Name) and value.id == name:
                yield f"{scope.self_name}.{own.partition('.')[2]}", scope


def _asks_parameters(
    program: Program, node: ast.AST, name: str, scope: Scope
) -> bool:
    """`model.parameters()`, or those of a part that is not frozen: `pipe.unet.parameters()`"""
    if not isinstance(node, ast.Attribute):
        return False
    asked = dotted_name(node.value) or ""
    if node.attr not in ("parameters", "named_parameters"):
        return False
    is_part = asked.startswith(f"{name}.")
    return asked == name or is_part and not _is_frozen(program, asked, scope)


def _is_input(
    program: Program, call: ast.Call, name: str, scope: Scope
) -> bool:
    """Whether a scope that scales its loss hands `name` to a model in a region, to train it."""
    if not any(
        isinstance(one.func, ast.Attribute) and one.func.attr == "scale"
        for one in scope.calls
    ):
        return False
    if (
        program.values.is_model(call.func.value, scope)
        if isinstance(call.func, ast.Attribute)
        else True
    ):
        return False
    if _is_given_to_half(program, name, scope):
        return False
    return any(
        program.regions.at(other) is not None
        and not without_gradients(program, other)
        and program.effects.is_forward(other, scope)
        and any(_is_given(program, call, name, given) for given in other.args)
        for other in scope.calls
    )


def _is_given(
    program: Program, call: ast.Call, name: str, given: ast.expr
) -> bool:
    """Whether an argument is the variable, as the statement of a conversion has bound it."""
    statement = program.module.statement_of(call)
    return dotted_name(given) == name and (
        not isinstance(statement, ast.Assign)
        or any(
            one.statement is statement
            for one in program.reaching.at(given, name).bindings
        )
    )


def _is_given_to_half(
    program: Program,
    name: str,
    scope: Scope,
) -> bool:
    """Whether a model with half-precision weights gets `name` as well, which needs it so."""
    half = half_models(program, scope)
    return any(
        (dotted_name(call.func) or "").startswith(f"{model}.")
        or dotted_name(call.func) == model
        for call in scope.calls
        if any(dotted_name(given) == name for given in call.args)
        for model in half
    )


def _fix(
    program: Program,
    call: ast.Call,
    why: str,
) -> Fix | None:
    """Without the conversion; where it is a statement of its own, or has other arguments, a person
    decides.
    """
    statement = program.module.statement_of(call)
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "half":
        return None
    if isinstance(statement, ast.Expr) and statement.value is call:
        return None
    inner = program.module.span(call.func.value)
    edit = ReplaceExpression(
        program.module.span(call), Template("$0", (inner,))
    )
    return Fix("unsafe", f"leave `.half()` out; {why}", (edit,))
