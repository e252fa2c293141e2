"""Hooks that are given gradients: those that bound them, and those that the scaler's factor goes
through.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.gradients.effects import last_name
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.effects import is_reducer
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Function,
    Scope,
    returned,
    shallow,
)
from amp_migrate.model.syntax.queries import names_in, nodes_in
from amp_migrate.torch_facts.gradients import BOUNDING, MULTIPLES, SAME_VALUES

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_QUEUE = "queue_callback"


def bounding_hooks(program: Program) -> Iterator[ast.Call]:
    """`tensor.register_hook(f)` where `f` bounds the gradient that it is given."""
    for scope in program.module.scopes.values():
        for call in scope.calls:
            func = call.func
            if (
                isinstance(func, ast.Attribute)
                and func.attr == "register_hook"
                and call.args
            ):
                hook = hook_of(program, call.args[0], scope)
                if hook is not None and _bounds_its_argument(program, hook):
                    yield call


def is_linear_hook(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a hook gives back a multiple of the gradient, which the scaler's factor goes
    through: `lambda grad: 0.1 * grad`, `partial(divide, world_size)`.
    """
    hook = hook_of(program, call.args[0], scope) if call.args else None
    if hook is None:
        return False
    if isinstance(hook, FUNCTIONS) and _only_averages(program, hook):
        return True
    parameters = hook.args.args
    if not parameters:
        return False
    body = hook.body if isinstance(hook, FUNCTIONS) else [ast.Return(hook.body)]
    last = body[-1]
    quiet = all(
        isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        for one in body[:-1]
    )
    given = last.value if isinstance(last, ast.Return) else None
    return (
        quiet and given is not None and _is_multiple(given, parameters[-1].arg)
    )


def asks_for_nan(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a hook on the very loss that goes backward asks whether its gradient is a number and
    no more: that gradient is the scaler's factor, which is one.
    """
    hook = hook_of(program, call.args[0], scope) if call.args else None
    loss = call.func.value if isinstance(call.func, ast.Attribute) else None
    if loss is None or not isinstance(hook, FUNCTIONS) or returned(hook):
        return False
    given = [one.arg for one in hook.args.args]
    nodes = [node for part in hook.body for node in nodes_in(part)]
    read = [one for one in nodes if isinstance(one, ast.Name)]
    asked = {one for node in nodes for one in _asked_for_nan(node)}
    return (
        len(given) == 1
        and all(one in asked for one in read if one.id == given[0])
        and _goes_backward(program, loss, scope)
    )


def _asked_for_nan(node: ast.AST) -> tuple[ast.expr, ...]:
    """`grad` of `torch.isnan(grad)` and `grad.isnan()`."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "isnan":
        return ()
    if isinstance(node.func, ast.Attribute):
        return (*node.args, node.func.value)
    return tuple(node.args)


def _goes_backward(program: Program, loss: ast.expr, scope: Scope) -> bool:
    """Whether `loss.backward()` is called on what a name holds here."""
    name = dotted_name(loss)
    here = program.reaching.at(loss, name) if name is not None else None
    if name is None or here is None or not here.complete:
        return False
    receivers = (
        call.func.value
        for call in scope.calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
    )
    return any(
        dotted_name(one) == name
        and program.reaching.at(one, name).bindings == here.bindings
        for one in receivers
    )


def _only_averages(program: Program, hook: Function) -> bool:
    """`engine.queue_callback(average)`: the gradients of all processes are averaged when they are
    there, and the one that the hook is given is left alone.
    """
    nodes = [node for part in hook.body for node in nodes_in(part)]
    calls = [one for one in nodes if isinstance(one, ast.Call)]
    queued = [one for one in calls if last_name(one.func) == _QUEUE]
    given = {one.arg for one in nodes_in(hook.args) if isinstance(one, ast.arg)}
    used = {one.id for one in nodes if isinstance(one, ast.Name)}
    if len(calls) != 1 or not queued or not queued[0].args or given & used:
        return False
    later = hook_of(program, queued[0].args[0], program.scope(hook))
    return isinstance(later, FUNCTIONS) and any(
        isinstance(node, ast.Call) and is_reducer(node)
        for node in nodes_in(later)
    )


def _is_multiple(expr: ast.expr, name: str) -> bool:
    if isinstance(expr, ast.Name):
        return expr.id == name
    if isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.USub):
        return _is_multiple(expr.operand, name)
    if isinstance(expr, ast.Call):
        return _gives_multiple(expr, name)
    if not isinstance(expr, ast.BinOp) or not isinstance(
        expr.op, (ast.Mult, ast.Div)
    ):
        return False
    left, right = name in names_in(expr.left), name in names_in(expr.right)
    if right and isinstance(expr.op, ast.Div) or left == right:
        return False
    return _is_multiple(expr.left if left else expr.right, name)


def _gives_multiple(call: ast.Call, name: str) -> bool:
    """`grad.clone()`, `grad.mul(0.1)`."""
    func = call.func
    if (
        not isinstance(func, ast.Attribute)
        or func.attr not in MULTIPLES | SAME_VALUES
    ):
        return False
    given = [*call.args, *(one.value for one in call.keywords)]
    return _is_multiple(func.value, name) and not any(
        name in names_in(one) for one in given
    )


def hook_of(
    program: Program, expr: ast.expr, scope: Scope
) -> ast.Lambda | Function | None:
    """The function that an expression hands over as a hook, if it is in sight."""
    if isinstance(expr, ast.Lambda):
        return expr
    if (
        isinstance(expr, ast.Call)
        and program.canonical(expr.func) == "functools.partial"
    ):
        return hook_of(program, expr.args[0], scope) if expr.args else None
    if isinstance(expr, ast.Call):
        maker = hook_of(program, expr.func, scope)
        return _made_by(maker) if isinstance(maker, FUNCTIONS) else None
    own = program.graph.function_at(expr, scope) or _own_method(
        program, expr, scope
    )
    there = program.values.abroad(expr, scope) if own is None else None
    return (
        there[1]
        if there is not None and isinstance(there[1], FUNCTIONS)
        else own
    )


def _own_method(
    program: Program, expr: ast.expr, scope: Scope
) -> Function | None:
    """`self.keep` in a method."""
    cls = program.graph.class_around(scope)
    if not isinstance(expr, ast.Attribute) or cls is None:
        return None
    if not isinstance(expr.value, ast.Name) or expr.value.id != scope.self_name:
        return None
    return program.graph.method(cls, expr.attr)


def _made_by(maker: Function) -> ast.Lambda | Function | None:
    """The function that `reversed_by(coefficient)` makes and gives back."""
    values = returned(maker)
    if len(values) != 1 or isinstance(values[0], ast.Lambda):
        return (
            values[0]
            if len(values) == 1 and isinstance(values[0], ast.Lambda)
            else None
        )
    name = values[0].id if isinstance(values[0], ast.Name) else None
    made = [
        one
        for one in maker.body
        if isinstance(one, FUNCTIONS) and one.name == name
    ]
    return made[0] if len(made) == 1 else None


def _bounds_its_argument(program: Program, hook: ast.Lambda | Function) -> bool:
    parameters = hook.args.args
    if not parameters:
        return False
    name = parameters[-1].arg
    body = hook.body if isinstance(hook, FUNCTIONS) else [hook.body]
    calls = (
        node
        for part in body
        for node in shallow(part)
        if isinstance(node, ast.Call)
    )
    return any(_bounds(call, name) for call in calls)


def _bounds(call: ast.Call, name: str) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in BOUNDING:
        return False
    given = [func.value, *call.args[:1]]
    return any(isinstance(one, ast.Name) and one.id == name for one in given)
