"""Activations that an object is given: `self.act(h)` of `Net(act=nn.Sigmoid())`, `nn.Sequential` of
a list that ends in what the constructor was handed. Of several objects one that saturates suffices.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.forwards.sequence_ends import ends
from amp_migrate.model.half_safety.trail import Origin
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Binding, Scope, returned
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.model.tensors.parameters import parameter_of
from amp_migrate.model.values.call_values import is_property
from amp_migrate.model.values.kinds import Value
from amp_migrate.model.values.literals import number
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.ops import Op, Trait

_DEEP = 8
Held: TypeAlias = "tuple[ast.expr, Scope, Activations]"


class Construction(NamedTuple):
    """The call that makes an object of another file's class, and where it stands."""

    call: ast.Call
    scope: Scope
    activations: Activations


class Activations:
    """What the callables of one program may be."""

    def __init__(
        self, inference: Inference, made: Construction | None = None
    ) -> None:
        self.inference = inference
        self.program = inference.program
        self.made = made

    def construction(self, call: ast.Call, scope: Scope) -> Construction | None:
        """What made the object that a call runs."""
        made = self.program.values.of(call.func, scope).origin
        return (
            Construction(made, scope, self)
            if isinstance(made, ast.Call)
            else None
        )

    def may_saturate(
        self, expr: ast.expr, scope: Scope, deep: int = _DEEP
    ) -> bool:
        """Whether a callable may be a sigmoid, as a function or as a layer."""
        if deep == 0:
            return False
        if isinstance(expr, ast.IfExp):
            return any(
                self.may_saturate(one, scope, deep - 1)
                for one in (expr.body, expr.orelse)
            )
        if isinstance(expr, ast.Call):
            return self.makes_saturating(expr.func, scope, deep - 1)
        found = ops.function(self.program.canonical(expr))
        if found is not None:
            return saturates(found.op)
        if isinstance(expr, ast.Attribute):
            read = self._property(expr, scope)
            if any(self.may_saturate(*one, deep - 1) for one in read):
                return True
        return any(
            act.may_saturate(one, home, deep - 1)
            for one, home, act in self._held(expr, scope)
        )

    def _property(
        self, expr: ast.Attribute, scope: Scope
    ) -> list[tuple[ast.expr, Scope]]:
        """What `self.squash` gives, where that is a property."""
        cls = self.program.values.of(expr.value, scope).cls
        if cls is None:
            return []
        method = self.program.graph.method(cls, expr.attr)
        if method is None or not is_property(method):
            return []
        inner = self.program.scope(method)
        return [(one, inner) for one in returned(method)]

    def makes_saturating(self, cls: ast.expr, scope: Scope, deep: int) -> bool:
        """Whether a class may be `nn.Sigmoid`."""
        row = layers.layer(self.program.canonical(cls))
        if row is not None:
            return row.op is not None and saturates(row.op)
        if isinstance(cls, ast.IfExp):
            return any(
                self.makes_saturating(one, scope, deep)
                for one in (cls.body, cls.orelse)
            )
        return deep > 0 and any(
            act.makes_saturating(one, home, deep - 1)
            for one, home, act in self._held(cls, scope)
        )

    def ends_saturated(self, value: Value) -> bool:
        """`nn.Sequential(..., nn.Sigmoid())`"""
        made = value.origin
        if not isinstance(made, ast.Call) or not made.args:
            return False
        if made not in self.program.module.parents:
            return False
        scope = self.program.module.scope_of(made)
        if value.name in layers.WRAPPERS:
            return self.ends_saturated(
                self.program.values.of(made.args[0], scope)
            )
        if not (value.name or "").endswith(".Sequential"):
            return False
        last = (one for one in ends(self.program, made) if one is not None)
        home = self.program.module.scope_of
        return any(self.may_saturate(one, home(one)) for one in last)

    def origin(self, layer: ast.expr | None) -> Origin | None:
        """What the last layer of a sequence makes of its input; None where nothing tells."""
        if layer is None:
            return None
        home = self.program.module.scope_of(layer)
        func = layer.func if isinstance(layer, ast.Call) else layer
        row = layers.layer(self.program.canonical(func))
        op = row.op if row is not None else None
        if self.may_saturate(layer, home):
            return Origin.SQUASHED
        if op is None and isinstance(layer, ast.Call) and layer.args:
            return self.origin(layer.args[0])  # `norm(nn.Conv2d())`
        known = {"lower": Origin.RAW, "fp32": Origin.GIVEN}
        return known.get(op.policy) if op is not None else None

    def _held(self, expr: ast.expr, scope: Scope) -> Iterator[Held]:
        """What a name or an attribute may hold, whoever passes it."""
        dotted = dotted_name(expr)
        if dotted is None:
            return
        for binding in self.program.reaching.at(expr, dotted).bindings:
            if binding.how == "parameter":
                yield from self._passed(binding)
            elif binding.value is not None and binding.index is None:
                if binding.value in self.program.module.parents:
                    where = self.program.module.scope_of(binding.value)
                    yield binding.value, where, self

    def _passed(self, binding: Binding) -> Iterator[Held]:
        for one, home in self.inference.passed(binding):
            yield one, home, self
        found = parameter_of(self.program, binding)
        if found is None:
            return
        function, scope, name = found
        is_made = self.made is not None and function.name == "__init__"
        if self.made is not None and is_made:
            given = argument(self.made.call, scope, name, bound=True)
            if given is not None:
                yield given, self.made.scope, self.made.activations
                return
        default = default_of(function, name)
        if default is not None:
            yield default, scope, self


def saturates(op: Op) -> bool:
    """Whether an operator rounds to the edge of its bounds in half precision."""
    return Trait.SATURATES in op.traits and op.policy == "keeps"


def is_clamped(op: Op, call: ast.Call, scope: Scope) -> bool:
    """`x.clamp(0, 1)`"""
    bounds = [*call.args[-2:], *(one.value for one in call.keywords)]
    sizes = [number(one, scope) for one in bounds]
    inside = [one for one in sizes if one is not None and 0 <= one <= 1]
    return op.name == "clamp" and len(inside) == 2


def told_saturated(call: ast.Call) -> str:
    """What to tell about a call that saturates."""
    edge = "is exactly 0 or 1 in half precision where float32 is not"
    return f"`{ast.unparse(call)}` {edge}"
