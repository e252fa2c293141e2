"""Which nodes read or rewrite gradients."""

from __future__ import annotations

import ast

from amp_migrate.model.gradients.gradient_clearing import gives_nothing
from amp_migrate.model.gradients.own_gradients import (
    is_own_change,
    is_own_multiple,
)
from amp_migrate.model.gradients.readers import called_reader
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Module
from amp_migrate.patterns import pattern
from amp_migrate.torch_facts.gradients import GRADIENTS, SCALE_FREE, WRITES

_LOGGERS = pattern(
    r"(?i)grad(ient)?s?_?(norm|stat|flow|hist|info|mag)"
    r"|(log|plot|check|print|norm|watch|save|record|write|get)_?grad|total_norm"
)
_GETTER = "operator.attrgetter"


def reads_gradients(module: Module, node: ast.AST) -> bool:
    """Whether this one node reads `.grad`, or is a call of a known clipper or
    gradient logger; or changes a gradient in terms of itself.
    """
    if _is_own(module, node):
        return True
    if (
        isinstance(node, ast.Attribute)
        and node.attr in GRADIENTS
        and isinstance(node.ctx, ast.Load)
    ):
        return module.canonical(node) is None and not _only_tested(module, node)
    if not isinstance(node, ast.Call):
        return False
    if _says_gradient(node) or is_getter_of_gradients(module, node):
        return True
    last = last_name(node.func)
    if called_reader(module, node.func, last) is EventKind.CLIP:
        return True
    return bool(_LOGGERS.search(last)) and last not in (
        "set_grad_enabled",
        "no_grad",
        "enable_grad",
        "zero_grad",
    )


def _says_gradient(call: ast.Call) -> bool:
    """`getattr(p, "grad")`"""
    name = call.args[1] if len(call.args) > 1 else None
    is_getattr = isinstance(call.func, ast.Name) and call.func.id == "getattr"
    return (
        is_getattr
        and isinstance(name, ast.Constant)
        and name.value in GRADIENTS
    )


def is_getter_of_gradients(module: Module, call: ast.AST) -> bool:
    """`operator.attrgetter("weight.grad")`, a function that reads gradients."""
    if not isinstance(call, ast.Call):
        return False
    if module.canonical(call.func) != _GETTER:
        return False
    for one in call.args:
        text = str(one.value) if isinstance(one, ast.Constant) else ""
        if not set(GRADIENTS).isdisjoint(text.split(".")):
            return True
    return False


def _only_tested(module: Module, node: ast.Attribute) -> bool:
    """`p.grad is None`, resets (`p.grad.zero_()`, `p.grad[fixed] = 0`) and constant factors
    (`p.grad /= n`) make no use of the values.
    """
    parent = module.parents[node]
    if isinstance(parent, ast.Compare):
        return any(
            isinstance(c, ast.Constant) and c.value is None
            for c in parent.comparators
        )
    if isinstance(parent, ast.Attribute) and parent.attr == "data":
        node, parent = parent, module.parents[parent]
    if isinstance(parent, ast.AugAssign) and parent.target is node:
        return isinstance(parent.op, (ast.Mult, ast.Div))
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return _is_cleared(module, parent)
    return isinstance(parent, ast.Attribute) and parent.attr in SCALE_FREE


def _is_cleared(module: Module, part: ast.Subscript) -> bool:
    """`p.grad[fixed] = 0`"""
    parent = module.parents[part]
    value = parent.value if isinstance(parent, ast.Assign) else None
    is_number = isinstance(value, ast.Constant) and value.value in (0, 0.0)
    return is_number and not isinstance(part.ctx, ast.Load)


def writes_gradients(module: Module, node: ast.AST) -> bool:
    """Whether gradients are rewritten other than by bounding or scaling them, by what is not
    their own.
    """
    return _rewritten(module, node) is not None and not _is_own(module, node)


def _is_own(module: Module, node: ast.AST) -> bool:
    written = _rewritten(module, node)
    return written is not None and is_own_change(module, written)


def _rewritten(
    module: Module,
    node: ast.AST,
) -> ast.Attribute | None:
    """The gradient that a node gives other values."""
    gradient = _set(node)
    if gradient is not None:
        parent = module.parents[node]
        value = getattr(parent, "value", None)
        if isinstance(parent, ast.AugAssign):
            scaled = isinstance(parent.op, (ast.Mult, ast.Div))
            return None if scaled else gradient
        multiple = gives_nothing(value) or is_own_multiple(module, gradient)
        return None if multiple else gradient
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in WRITES
    ):
        return _gradient(node.func.value)
    return _written_in_part(module, node)


def _set(node: ast.AST) -> ast.Attribute | None:
    """`p.grad` where it is set, or its values are: `p.grad.data = mean`."""
    if not isinstance(node, ast.Attribute):
        return None
    if not isinstance(node.ctx, ast.Store):
        return None
    return _gradient(node)


def _written_in_part(
    module: Module,
    node: ast.AST,
) -> ast.Attribute | None:
    """`p.grad.data[i] += other.grad[i]`"""
    if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Load):
        return None
    parent = module.parents[node]
    if isinstance(parent, ast.AugAssign):
        if isinstance(parent.op, (ast.Mult, ast.Div)):
            return None
    return None if _is_cleared(module, node) else _gradient(node.value)


def _gradient(expr: ast.expr) -> ast.Attribute | None:
    """`p.grad` of itself, or of `p.grad.data`."""
    inner = expr
    if isinstance(inner, ast.Attribute) and inner.attr == "data":
        inner = inner.value
    if isinstance(inner, ast.Attribute) and inner.attr in GRADIENTS:
        return inner
    return None


def forgets_gradients(module: Module, call: ast.Call) -> bool:
    """`for p in model.parameters(): p.grad = None`, told of what the loop goes over."""
    loop = module.parents[call]
    return (
        last_name(call.func) == "parameters"
        and isinstance(loop, ast.For)
        and loop.iter is call
        and any(_forgets(one, loop.target) for one in loop.body)
    )


def _forgets(statement: ast.stmt, parameter: ast.expr) -> bool:
    if not isinstance(statement, ast.Assign):
        return False
    target, value = statement.targets[0], statement.value
    return (
        isinstance(target, ast.Attribute)
        and target.attr == "grad"
        and isinstance(parameter, ast.Name)
        and isinstance(target.value, ast.Name)
        and target.value.id == parameter.id
        and gives_nothing(value)
    )


def last_name(func: ast.expr) -> str:
    """What a call is called by: the attribute, or the name."""
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""
