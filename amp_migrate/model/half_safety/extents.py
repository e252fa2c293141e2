"""How far numbers reach that are counted up, and what is solved for: `torch.arange(n)`, grids of
pixels, inverse matrices, in whatever shape, dtype and library, shifted, scaled, turned.

Half precision tells neither large ones apart, nor what is left where their terms cancel.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.half_safety.given_values import (
    values_of,
    values_returned,
)
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Function, Scope, returned
from amp_migrate.model.tensors.buffers import registered
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.model.tensors.spelling import operands
from amp_migrate.model.tensors.whole_files import all_in
from amp_migrate.model.values.literals import number
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.layers import PARAMETERS
from amp_migrate.torch_facts.methods import NUMPY
from amp_migrate.torch_facts.ops import Op, Spelling, Trait
from amp_migrate.torch_facts.ops.row import INFINITY

_DEEP = 16
_HOPS = 3
_SAME_NUMBERS = frozenset(
    row.name for row in ops.shapes.ROWS if row.result in ("same", "tuple")
) | {"float", "to", "type_as", "double", "tensor", "from_numpy", "FloatTensor"}
_ENDS = ("start", "end", "stop")
_Values: TypeAlias = Iterable[tuple[ast.expr, Scope]]


def extent(asked: Asked, expr: ast.expr, scope: Scope) -> float:
    """The largest of the numbers; infinite where nothing tells, 0 where nothing counts."""
    return _Extents(asked.inference).of(expr, scope, _DEEP)


def operator_of(inference: Inference, call: ast.Call) -> Spelling | None:
    """The operator of torch that a call spells, or NumPy's of the same name."""
    canonical = inference.program.canonical(call.func)
    if canonical is not None:
        if canonical.startswith(NUMPY):
            canonical = f"torch.{canonical.removeprefix(NUMPY)}"
        return ops.function(canonical)
    if not isinstance(call.func, ast.Attribute):
        return None
    return ops.method(call.func.attr)


class _Extents(NamedTuple):
    """Follows values back, in one file and into those that it calls."""

    inference: Inference
    given: tuple[tuple[Binding, float], ...] = ()
    """Parameters whose extents a call tells."""
    hops: int = 0

    @property
    def program(self) -> Program:
        return self.inference.program

    def of(self, expr: ast.expr, scope: Scope, deep: int) -> float:
        """Remembered with the depth to which it was followed: many callers pass the same on."""
        if deep <= 0:
            return 0.0
        known: dict[tuple[ast.expr, Scope], tuple[int, float]]
        known = self.program.remembered((extent, self.given), dict)
        held = known.get((expr, scope))
        if held is None or held[0] < deep:
            # What leads back to itself adds nothing.
            known[expr, scope] = (deep, 0.0)
            held = (deep, self._followed(expr, scope, deep))
            known[expr, scope] = held
        return held[1]

    def _followed(self, expr: ast.expr, scope: Scope, deep: int) -> float:
        if isinstance(expr, ast.Attribute):
            buffer = registered(self.inference.program, expr, scope)
            if buffer is not None:
                return self.of(*buffer, deep - 1)
        if isinstance(expr, (ast.Name, ast.Attribute)):
            return self._named(expr, deep)
        if isinstance(expr, ast.BinOp):
            sides = [expr.left, expr.right]
            return self._computed(ops.operator(expr.op), sides, scope, deep)
        if isinstance(expr, ast.Call):
            return self._called(expr, scope, deep)
        inner = ((one, scope) for one in _inner(expr))
        return self._farthest(inner, deep)

    def _farthest(self, values: _Values, deep: int) -> float:
        found = (self.of(one, home, deep - 1) for one, home in values)
        return max(found, default=0.0)

    # -- names

    def _named(self, name: ast.Name | ast.Attribute, deep: int) -> float:
        """How far the values of a name reach."""
        dotted = dotted_name(name)
        if dotted is None:
            return 0.0
        told = dict(self.given)
        found = 0.0
        for binding in self.program.reaching.at(name, dotted).bindings:
            if binding in told:
                found = max(found, told[binding])
            else:
                found = max(found, self._farthest(self._bound(binding), deep))
        return found

    def _bound(self, binding: Binding) -> Iterator[tuple[ast.expr, Scope]]:
        """What a name was set to, or callers pass; of what an operator gives together, all."""
        value, module = binding.value, self.program.module
        if value is not None and value not in module.parents:
            return  # an heir's, in a file that is only read
        if (
            binding.index is not None
            and isinstance(value, ast.Call)
            and operator_of(self.inference, value) is not None
        ):
            yield value, module.scope_of(value)
        else:
            yield from values_of(self.inference, binding)

    # -- calls

    def _called(self, call: ast.Call, scope: Scope, deep: int) -> float:
        found = operator_of(self.inference, call)
        if found is None:
            return self._of_object(call, scope, deep)
        op = found.op
        if op.name == "arange":
            return _counted(call.args, scope)
        if op.name == "linspace":
            named = [one.value for one in call.keywords if one.arg in _ENDS]
            return _counted([*call.args[:2], *named], scope)
        if op.traits & Trait.INVERTS:
            return INFINITY
        given = operands(found, call)
        if op.name not in _SAME_NUMBERS:
            return self._computed(op, given, scope, deep)
        if not given and isinstance(call.func, ast.Attribute):
            given = [call.func.value, *call.args[:1]]
        return self._farthest(((one, scope) for one in given), deep)

    def _of_object(self, call: ast.Call, scope: Scope, deep: int) -> float:
        """What a function or a model of the project gives, and an array under a method of its
        own.
        """
        func = call.func
        if isinstance(func, ast.Name) and func.id == "range":
            return _counted(call.args, scope)
        if (self.program.canonical(func) or "") in PARAMETERS and call.args:
            return self.of(call.args[0], scope, deep - 1)
        if isinstance(func, ast.Attribute):
            if self.inference.of(func.value, scope).is_array:
                return self.of(func.value, scope, deep - 1)
        own = list(values_returned(self.program, call, scope))
        if own:
            return self._farthest(own, deep)
        for home, function, bound in _abroad(self.program, call, scope):
            return self._there(home, function, bound, call, scope, deep)
        return 0.0

    def _there(
        self,
        home: Program,
        function: Function,
        bound: bool,
        call: ast.Call,
        scope: Scope,
        deep: int,
    ) -> float:
        """What a function of another file gives, of what this call hands it."""
        if self.hops >= _HOPS:
            return 0.0
        inner = home.scope(function)
        told: list[tuple[Binding, float]] = []
        for name, held in inner.bindings.items():
            given = argument(call, inner, name, bound)
            if held[0].how == "parameter" and given is not None:
                told.append((held[0], self.of(given, scope, deep - 1)))
        there = _Extents(all_in(home, None), tuple(told), self.hops + 1)
        values = ((one, inner) for one in returned(function))
        return there._farthest(values, deep)

    # -- operations

    def _computed(
        self, op: Op | None, given: list[ast.expr], scope: Scope, deep: int
    ) -> float:
        """Of what is added, multiplied, divided; a product of matrices mixes what they hold, and
        layers learn from it.
        """
        if op is None or len(given) < 2:
            return 0.0
        if op.policy == "lower":
            is_layer = op.name.startswith("nn.functional.")
            shown = [] if is_layer else [(one, scope) for one in given]
            return INFINITY if self._farthest(shown, deep) else 0.0
        if op.name not in ("add", "sub", "mul", "div"):
            return 0.0
        left, right = given[:2]
        reach = self.of(left, scope, deep - 1)
        other = self.of(right, scope, deep - 1) if op.name != "div" else 0.0
        by = number(right, scope) if reach else number(left, scope)
        return _scaled(op.name, (reach, other), by)


def _scaled(name: str, counted: tuple[float, float], by: float | None) -> float:
    """`by`: a number on the other side; what is learned there shifts a position a little."""
    reach = max(counted)
    if not reach:
        return 0.0
    if name in ("add", "sub"):
        return sum(counted) + abs(by or 0.0)
    if by is None:  # of an infinite one and nothing, the product is no number
        return counted[0] * counted[1] if all(counted) else INFINITY
    if name == "mul":
        return reach * abs(by)
    return reach / abs(by) if by else INFINITY


def _inner(expr: ast.expr) -> list[ast.expr]:
    """What an expression shows, or holds."""
    if isinstance(expr, (ast.Subscript, ast.Starred)):
        return [expr.value]
    if isinstance(expr, ast.UnaryOp):
        return [expr.operand]
    return expr.elts if isinstance(expr, (ast.Tuple, ast.List)) else []


def _counted(bounds: list[ast.expr], scope: Scope) -> float:
    """The largest number of `torch.arange(...)`; without a literal bound it may be any."""
    found = [number(one, scope) for one in bounds]
    known = [abs(one) for one in found if one is not None]
    return max(known) if known and len(known) == len(found) else INFINITY


def _abroad(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, Function, bool]]:
    """The function or the method of another file that a call runs, and whether it is bound to an
    object.
    """
    found = program.values.abroad(call.func, scope)
    if found is not None and not isinstance(found[1], ast.ClassDef):
        yield found[0], found[1], False
    elif isinstance(call.func, ast.Attribute):
        holder = call.func.value
        own = program.values.of(holder, scope).foreign
        named = program.values.abroad(holder, scope)
        for home, cls in (one for one in (own, named) if one is not None):
            if isinstance(cls, ast.ClassDef):
                method = home.graph.method(cls, call.func.attr)
                if method is not None:
                    yield home, method, not method.decorator_list
