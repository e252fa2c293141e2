"""Gradients that are changed in terms of themselves, of their parameter and of numbers: noise,
signs, adaptive clipping, centralization. Once they are unscaled nothing in the change knows of a
scale.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.scopes import Binding
from amp_migrate.model.syntax.module import FUNCTIONS, Module, Scope
from amp_migrate.model.syntax.queries import holds, nodes_in
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.gradients import BOUNDING, GRADIENTS
from amp_migrate.torch_facts.methods import (
    ATTRIBUTES_OF_TENSORS,
    HARMLESS,
    ONLY_OF_TENSORS,
)

_NUMBERS: tuple[str | None, ...] = ("int", "float")
_FOREIGN = ("torch", "numpy")
_OF_TENSORS = ATTRIBUTES_OF_TENSORS | ONLY_OF_TENSORS | HARMLESS | {"data"}


def is_own_change(module: Module, written: ast.Attribute) -> bool:
    """Whether what `p.grad` becomes, in an assignment or by a method in place, comes of `p`, of
    numbers and of fresh tensors alone.
    """
    owner = dotted_name(written.value)
    given = list(_given(module, written))
    if owner is None or not given:
        return False
    change = _Change(module, owner, module.scope_of(written))
    return all(change.is_own(one) for one in given)


def _given(
    module: Module,
    written: ast.Attribute,
) -> Iterator[ast.expr]:
    """What is assigned, or handed to the method that writes."""
    parent = module.parents[written]
    if isinstance(parent, ast.Attribute) and parent.attr == "data":
        parent = module.parents[parent]
    if isinstance(parent, ast.Subscript):
        yield parent.slice
        parent = module.parents[parent]
    if isinstance(parent, (ast.Assign, ast.AugAssign)):
        yield parent.value
    elif isinstance(parent, ast.Attribute):
        call = module.parents[parent]
        if isinstance(call, ast.Call):
            yield from call.args
            yield from (one.value for one in call.keywords)
            yield parent.value


def is_own_multiple(module: Module, written: ast.Attribute) -> bool:
    """Whether `p.grad` becomes a multiple of itself, or itself within bounds, whatever these are:
    `p.grad = p.grad * coefficient`, `p.grad = torch.clamp(p.grad, -bound, bound)`.
    """
    owner = dotted_name(written.value)
    statement = module.parents[written]
    if isinstance(statement, ast.Attribute):
        statement = module.parents[statement]
    given = _operands(getattr(statement, "value", None))
    return owner is not None and any(
        _is_own_gradient(one, _Change(module, owner, module.scope_of(written)))
        for one in given
    )


def _is_own_gradient(value: ast.expr, change: _Change) -> bool:
    return change.is_own(value) and change.has_gradient


def _operands(value: ast.expr | None) -> list[ast.expr]:
    """What is multiplied, or bounded."""
    if isinstance(value, ast.BinOp):
        scaled = isinstance(value.op, (ast.Mult, ast.Div))
        return [value.left, value.right] if scaled else []
    if not isinstance(value, ast.Call):
        return []
    bounds = (dotted_name(value.func) or "").rpartition(".")[2] in BOUNDING
    return [value.func, *value.args[:1]] if bounds else []


class _Change:
    """What one gradient is changed by."""

    def __init__(self, module: Module, owner: str, scope: Scope) -> None:
        self.module = module
        self.owner = owner
        self.scope = scope
        self.asked: set[str] = set()
        self.has_gradient = False

    def is_own(self, value: ast.AST) -> bool:
        """Whether all that a value is made of is the parameter's own, or holds no gradient."""
        return all(
            self._is_own_name(node)
            for node in nodes_in(value)
            if isinstance(node, ast.Name)
        )

    def _is_own_name(self, name: ast.Name) -> bool:
        if self._is_of_owner(name):
            return True
        if isinstance(name.ctx, ast.Store):
            return True  # of a comprehension: what it goes over is asked, too
        home = self.scope.lookup(name.id)
        if home is None:
            return hasattr(builtins, name.id)
        origin = (self.module.canonical(name) or "").partition(".")[0]
        if origin in _FOREIGN or origin in sys.stdlib_module_names:
            return True
        if name.id in self.asked:
            return True  # decided where it was asked first
        self.asked.add(name.id)
        return all(map(self._is_own_binding, home.bindings[name.id]))

    def _is_of_owner(self, name: ast.Name) -> bool:
        """`self.weight` of `self.weight.grad`."""
        node: ast.AST = name
        while isinstance(node, (ast.Name, ast.Attribute)):
            above = self.module.parents[node]
            if dotted_name(node) == self.owner:
                self.has_gradient |= _is_gradient(above)
                return not self._is_put_there(above)
            node = above
        return False

    def _is_put_there(self, part: ast.AST) -> bool:
        """`p.grad_sample`, which no tensor has, and nothing in sight sets: backward may."""
        if not isinstance(part, ast.Attribute) or _is_of_tensors(part.attr):
            return False
        return not any(
            isinstance(one, ast.Attribute)
            and one.attr == part.attr
            and isinstance(one.ctx, ast.Store)
            for one in self.module.parents
        )

    def _is_own_binding(self, one: Binding) -> bool:
        if one.how == "def" and isinstance(one.statement, FUNCTIONS):
            return not holds(one.statement, _is_gradient)
        if one.how == "parameter":
            return self._is_number(one.statement)
        return (
            one.how in ("assign", "augmented")
            and one.index is None
            and one.value is not None
            and self.is_own(one.value)
        )

    def _is_number(self, parameter: ast.AST) -> bool:
        """Whether a parameter says that it is one, or has one as its default."""
        if not isinstance(parameter, ast.arg):
            return False
        said = parameter.annotation
        if said is not None and dotted_name(said) in _NUMBERS:
            return True
        given = self.module.parents[parameter]
        if not isinstance(given, ast.arguments):
            return False
        names = [*given.posonlyargs, *given.args]
        last = names[len(names) - len(given.defaults) :]
        pairs = [
            *zip(last, given.defaults, strict=True),
            *zip(given.kwonlyargs, given.kw_defaults, strict=True),
        ]
        return any(
            one is parameter and isinstance(value, ast.Constant)
            for one, value in pairs
        )


def _is_of_tensors(name: str) -> bool:
    known = ops.method(name) is not None or name in _OF_TENSORS
    return known or name in GRADIENTS


def _is_gradient(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else ""
    return name in GRADIENTS or name == "autograd"
