"""Calls out of sight that are handed the optimizer, or the parameters, while gradients are scaled:
they may step, or read what is scaled.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from amp_migrate.model.classes.bases_abroad import method_of
from amp_migrate.model.gradients.flow import functions_run
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.planner.refusal import Refusal
from amp_migrate.torch_facts.optimizers import METHODS

_HOPS = 3
_OPTIMIZERS = (Kind.OPTIMIZER, Kind.OPTIMIZERS)


def passed_on(
    program: Program, scope: Scope, nodes: Iterable[ast.AST], hops: int = _HOPS
) -> Refusal | None:
    """The refusal for the first such call in `nodes`, or in functions that are called there."""
    for call in (
        n for node in nodes for n in shallow(node) if isinstance(n, ast.Call)
    ):
        found = _in_lambdas(program, call, scope) or _of_call(
            program, call, scope, hops
        )
        if found is not None:
            return found
    return None


def _in_lambdas(
    program: Program, call: ast.Call, scope: Scope
) -> Refusal | None:
    """`any(map(lambda callback: callback.after_backward(self), callbacks))`"""
    handed = (one for one in call.args if isinstance(one, ast.Lambda))
    for inner in (n for one in handed for n in nodes_in(one.body)):
        if isinstance(inner, ast.Call):
            what = _taken(program, inner, scope) or _trainer(
                program, inner, scope
            )
            if what is not None:
                return _refusal(inner, what)
    return None


def _of_call(
    program: Program, call: ast.Call, scope: Scope, hops: int
) -> Refusal | None:
    function = program.values.callee(call, scope)
    if function is not None:
        if (
            not hops
            or program.effects.of_function(function) & EventKind.BACKWARD
        ):
            return None
        return passed_on(
            program, program.scope(function), function.body, hops - 1
        )
    own = own_method(program, call, scope)
    if own is not None:
        return own
    what = _taken(program, call, scope)
    other, helper = program.values.abroad(call.func, scope) or (None, None)
    if (
        other is not None
        and isinstance(helper, FUNCTIONS)
        and hops
        and what is not None
    ):
        inside = passed_on(other, other.scope(helper), helper.body, hops - 1)
        return _in_file(inside, other, call)
    if what is None and _answers_any_name(program, call, scope):
        what = _trainer(program, call, scope)
    if what is None or not _is_out_of_sight(program, call, scope):
        return None
    return _refusal(call, what, above=_is_parameter(call.func, scope))


def own_method(
    program: Program, call: ast.Call, scope: Scope
) -> Refusal | None:
    """`optimizer.step_kd()`: what torch's optimizers do not have may read what is scaled."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr in METHODS:
        return None
    if not program.effects.is_optimizer(func.value, scope):
        return None
    # `args.optim.lower()` is of a string, `opts.get("clip")` of settings.
    is_builtin = any(hasattr(one, func.attr) for one in (str, dict, list))
    if is_builtin and not program.values.of(func.value, scope):
        return None
    if functions_run(program, call, scope) or program.effects.reads_gradients(
        call
    ):
        return None
    return Refusal(
        "optimizer-passed-on",
        call,
        f"`{ast.unparse(func)}` is no method of torch's optimizers, and nothing that was followed "
        "says what it does with gradients that carry the scaler's factor",
    )


def _refusal(call: ast.Call, what: str, *, above: bool = False) -> Refusal:
    return Refusal(
        "optimizer-passed-on",
        call,
        f"`{ast.unparse(call.func)}` takes {what} while its gradients are scaled, and nothing that "
        "was followed says what it does with them",
        above=above,
    )


def _is_parameter(func: ast.expr, scope: Scope) -> bool:
    """Whether callers say what a function is."""
    home = scope.lookup(func.id) if isinstance(func, ast.Name) else None
    bindings = (
        home.bindings[func.id] if home and isinstance(func, ast.Name) else []
    )
    return any(one.how == "parameter" for one in bindings)


def _in_file(
    found: Refusal | None, other: Program, call: ast.Call
) -> Refusal | None:
    """A refusal of a call in another file, at the call that leads there."""
    if found is None:
        return None
    message = f"{other.module.path}, line {found.line}: {found.message}"
    return Refusal(found.reason, call, message)


def _taken(program: Program, call: ast.Call, scope: Scope) -> str | None:
    """The optimizer or the parameters among the arguments of a call."""
    for given in [*call.args, *(k.value for k in call.keywords)]:
        inner = (
            given.args[0]
            if _is_list(given) and isinstance(given, ast.Call)
            else given
        )
        if isinstance(
            inner, (ast.Name, ast.Attribute)
        ) and program.effects.is_optimizer(inner, scope):
            return f"the optimizer `{ast.unparse(inner)}`"
        if isinstance(inner, (ast.Name, ast.Attribute)) and _holds_optimizer(
            program, inner, scope
        ):
            return f"the optimizer in `{ast.unparse(inner)}`"
        if _is_parameters(program, inner, scope):
            return f"the parameters `{ast.unparse(inner)}`"
    return None


def _trainer(program: Program, call: ast.Call, scope: Scope) -> str | None:
    """`self`, handed over by a method of what holds the optimizer."""
    handed = any(
        isinstance(one, ast.Name) and one.id == scope.self_name
        for one in call.args
    )
    cls = program.graph.class_around(scope) if handed else None
    if cls is None:
        return None
    held = program.module.scopes[cls].bindings
    for name in (one for one in held if one.startswith("self.")):
        attribute = name.partition(".")[2]
        if program.values.class_attribute(cls, attribute).kind in _OPTIMIZERS:
            return f"`{scope.self_name}`, which holds the optimizer,"
    return None


def _answers_any_name(program: Program, call: ast.Call, scope: Scope) -> bool:
    """`callbacks.after_backward(self)` of a class whose `__getattr__` makes its methods."""
    if not isinstance(call.func, ast.Attribute):
        return False
    value = program.values.of(call.func.value, scope)
    home, cls = value.foreign or (program, value.cls)
    if cls is None or home.graph.method(cls, call.func.attr) is not None:
        return False
    return home.graph.method(cls, "__getattr__") is not None


def _holds_optimizer(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """`state`, where `state["optimizer"]` is one."""
    held = program.values.contents.held(expr, scope)
    return any(value.kind in _OPTIMIZERS for value in held)


def _is_list(expr: ast.expr) -> bool:
    return (
        isinstance(expr, ast.Call)
        and isinstance(expr.func, ast.Name)
        and expr.func.id in ("list", "tuple", "iter")
        and len(expr.args) == 1
    )


def _is_parameters(program: Program, expr: ast.expr, scope: Scope) -> bool:
    if isinstance(expr, ast.Attribute):
        return expr.attr == "param_groups"
    return (
        isinstance(expr, ast.Call)
        and isinstance(expr.func, ast.Attribute)
        and expr.func.attr in ("parameters", "named_parameters")
    )


def _is_out_of_sight(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether nothing says what a call does: no definition, no builtin, no function of torch's, no
    known reader of gradients.
    """
    if program.effects.is_harmless(
        call, scope
    ) or program.effects.reads_gradients(call):
        return False
    if (program.canonical(call.func) or "").startswith("torch.") or _is_builtin(
        call.func, scope
    ):
        return False
    if program.values.abroad(call.func, scope) is not None:
        return False
    holder = call.func.value if isinstance(call.func, ast.Attribute) else None
    value = program.values.of(holder, scope) if holder is not None else None
    if value is None or value.foreign is None:
        return True
    assert isinstance(call.func, ast.Attribute)
    return method_of(*value.foreign, call.func.attr) is None


def _is_builtin(func: ast.expr, scope: Scope) -> bool:
    return (
        isinstance(func, ast.Name)
        and hasattr(builtins, func.id)
        and not scope.lookup(func.id)
    )


__all__ = ["own_method", "passed_on"]
