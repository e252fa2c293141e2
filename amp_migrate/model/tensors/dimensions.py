"""Tensors that have dimensions for certain. Beside one of float32, a tensor in half precision gives
float32; beside a float32 tensor without any, it would stay half.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.methods_elsewhere import method_elsewhere
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import (
    Binding,
    Function,
    Scope,
    returned,
    returned_at,
)
from amp_migrate.model.tensors.buffers import registered
from amp_migrate.model.tensors.fact import DType, Fact, widest
from amp_migrate.model.tensors.indexing import left_by
from amp_migrate.model.tensors.parameters import all_arguments
from amp_migrate.model.tensors.spelling import (
    is_method,
    operands,
    operands_and_others,
    spelled,
)
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.distributions import distribution
from amp_migrate.torch_facts.methods import (
    KEEPS_SHAPE,
    MAKES_DIMENSIONS,
    REDUCTIONS,
    SIZED,
    TAKES_SIZES,
)
from amp_migrate.torch_facts.ops import Op, Spelling
from amp_migrate.torch_facts.ops.roles import CONVERSIONS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference

_Values: TypeAlias = "list[tuple[Dimensions, ast.expr, Scope]]"
_DEEP = 12
_WIDE = DType.FLOAT | DType.DOUBLE
_ELEMENTWISE = frozenset(ops.pointwise.ROWS)
_DRAWS = ("rsample", "sample", "log_prob")


def settled(
    inference: Inference,
    op: Op,
    made: Fact,
    sides: list[ast.expr],
    scope: Scope,
) -> Fact:
    """What arithmetic gives, element by element, where a side is float32 and has dimensions:
    nothing half.
    """
    is_open = bool(made.dtypes & (DType.HALF | DType.UNKNOWN))
    if not is_open or len(sides) < 2 or not is_elementwise(op):
        return made
    facts = [inference.of(one, scope) for one in sides]
    shapes = Dimensions(inference)
    for side, fact in zip(sides, facts, strict=True):
        wide = bool(fact.dtypes) and not fact.dtypes & ~_WIDE
        if wide and shapes.least(side, scope, _DEEP):
            wider = widest(facts)
            return wider._replace(bounds=made.bounds, origin=made.origin)
    return made


def is_elementwise(op: Op) -> bool:
    """Whether an operator gives what has the shape of its operands together."""
    return op in _ELEMENTWISE


class Dimensions:
    """Answers `least` for the values of one program."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self.program: Program = inference.program

    def least(self, expr: ast.expr, scope: Scope, deep: int) -> int:
        """How many dimensions a tensor has at least, as far as that is sure.

        Remembered with the depth to which it was followed.
        """
        if deep <= 0:
            return 0
        known: dict[tuple[ast.expr, int], int]
        known = self.program.remembered(Dimensions, dict)
        if (expr, deep) not in known:
            known[expr, deep] = 0  # what leads back to itself adds nothing
            known[expr, deep] = self._least(expr, scope, deep - 1)
        return known[expr, deep]

    def _fewest(self, values: _Values, deep: int) -> int:
        """Of several values, any of which it may be, the one with the fewest
        dimensions; nothing is known where there are none.
        """
        found = (home.least(one, where, deep) for home, one, where in values)
        return min(found, default=0)

    def _most(self, sides: Iterable[ast.expr], scope: Scope, deep: int) -> int:
        """What is computed of several together has the shape of all of them,
        so at least that of the one with the most.
        """
        found = (self.least(one, scope, deep) for one in sides)
        return max(found, default=0)

    def _least(self, expr: ast.expr, scope: Scope, deep: int) -> int:
        """The same, not remembered."""
        if isinstance(expr, (ast.Name, ast.Attribute)):
            return self._named(expr, scope, deep)
        if isinstance(expr, ast.BinOp):
            sides = (expr.left, expr.right)
            if isinstance(expr.op, ast.MatMult):
                return self._product(sides, scope, deep)
            return self._most(sides, scope, deep)
        if isinstance(expr, ast.UnaryOp):
            return self.least(expr.operand, scope, deep)
        if isinstance(expr, ast.Compare):
            return self._most((expr.left, *expr.comparators), scope, deep)
        if isinstance(expr, ast.IfExp):
            arms = (expr.body, expr.orelse)
            return self._fewest([(self, one, scope) for one in arms], deep)
        if isinstance(expr, ast.Call):
            return self._called(expr, scope, deep)
        if isinstance(expr, ast.Subscript):
            whole = self.least(expr.value, scope, deep)
            return left_by(expr, whole)
        return 0

    def _product(
        self, sides: tuple[ast.expr, ast.expr], scope: Scope, deep: int
    ) -> int:
        """Of a product of matrices: a vector takes away a dimension of the other side."""
        fewer, more = sorted(self.least(one, scope, deep) for one in sides)
        return more if fewer > 1 else max(more - 1, 0)

    # -- names

    def _named(
        self, name: ast.Name | ast.Attribute, scope: Scope, deep: int
    ) -> int:
        """Of a name or an attribute, by all that may have set it; where others
        may set the attribute as well, nothing is known.
        """
        if isinstance(name, ast.Attribute) and name.attr == "data":
            return self.least(name.value, scope, deep)
        dotted = dotted_name(name)
        if dotted is None:
            return 0
        if isinstance(name, ast.Attribute):
            buffer = registered(self.program, name, scope)
            if buffer is not None:
                return self.least(*buffer, deep)
        reach = self.program.reaching.at(name, dotted)
        if isinstance(name, ast.Attribute) and not reach.complete:
            return 0
        found = (self._bound(one, deep) for one in reach.bindings)
        return min(found, default=0)

    def _bound(self, binding: Binding, deep: int) -> int:
        """Of what a name is set to, or is given by its callers."""
        if binding.how == "parameter":
            given = all_arguments(self.program, binding)
            return self._fewest([(self, *one) for one in given], deep)
        value = binding.value
        if binding.how != "assign" or value not in self.program.module.parents:
            return 0
        assert value is not None
        home = self.program.module.scope_of(value)
        if isinstance(binding.statement, ast.AugAssign):
            return 0
        if binding.index is None:
            return self.least(value, home, deep)
        return self._part(value, binding.index, home, deep)

    def _part(
        self, value: ast.expr, index: int, scope: Scope, deep: int
    ) -> int:
        """`mean, spread = self.net(x)`"""
        if isinstance(value, ast.Tuple) and index < len(value.elts):
            return self.least(value.elts[index], scope, deep)
        if not isinstance(value, ast.Call):
            return 0
        parts: _Values = []
        for there, function in self._run(value, scope):
            found = returned_at(function, index)
            if not found or len(found) < len(returned(function)):
                return 0
            inner = there.program.scope(function)
            parts += [(there, one, inner) for one in found]
        return self._fewest(parts, deep)

    # -- calls

    def _run(
        self, call: ast.Call, scope: Scope
    ) -> list[tuple[Dimensions, Function]]:
        """The functions in sight that a call runs, here or in another file."""
        own = self.program.values.callees(call, scope)
        if own:
            return [(self, one) for one in own]
        home = method_elsewhere(self.program, call, scope)
        if home is None:
            return []
        region = self.inference.where(call) or "float16"  # of no matter here
        there = self.inference.abroad(home[0], region)
        return [(Dimensions(there), home[1])]

    def _called(self, call: ast.Call, scope: Scope, deep: int) -> int:
        """Of what a call gives: an operator of torch, a distribution, functions
        in sight, or a layer.
        """
        if self.program.canonical(call.func) in layers.PARAMETERS:
            return self._most(call.args[:1], scope, deep)
        found = spelled(self.inference, call, scope)
        if found is not None:
            return self._computed(found, call, scope, deep)
        drawn = drawn_from(self.program, call, _DRAWS)
        if drawn:
            return max(self.least(one, home, deep) for one, home in drawn)
        results = [
            (there, one, there.program.scope(function))
            for there, function in self._run(call, scope)
            for one in returned(function)
        ]
        if results:
            return self._fewest(results, deep)
        return self._through_layer(call, scope, deep)

    def _through_layer(self, call: ast.Call, scope: Scope, deep: int) -> int:
        """`nn.Linear(3, 4)(x)`: a product with a matrix leaves a dimension."""
        value = self.program.values.of(call.func, scope)
        row = layers.layer(value.name)
        if value.kind is not Kind.MODEL or row is None:
            return 0
        if value.mixed or value.others:
            return 0
        op = row.op if row.role == "layer" else None
        if op is None or not call.args:
            return 0
        given = self.least(call.args[0], scope, deep)
        if op.name == "nn.functional.embedding":
            return given + 1
        if op.name in MAKES_DIMENSIONS or op.name == "nn.functional.linear":
            return max(given, 1)
        keeps = is_elementwise(op) or op.name in KEEPS_SHAPE
        return given if keeps else 0

    def _computed(
        self, found: Spelling, call: ast.Call, scope: Scope, deep: int
    ) -> int:
        """Of what an operator gives.

        Where its row says nothing of the shape, as for `select`, nothing is
        known; a view and an element by element operation keep what there is.
        """
        op = found.op
        given = operands_and_others(found, call)
        if op.name in ("unsqueeze", "squeeze"):
            one = 1 if op.name == "unsqueeze" else -1
            before = self._most(given[:1], scope, deep)
            return max(before + one, 0) if len(given) == 2 else max(one, 0)
        if op.name in MAKES_DIMENSIONS:
            return 1
        if op.name == "nn.functional.linear" and len(given) > 1:
            return int(self.least(given[1], scope, deep) > 1)
        if is_method(found, call) and op.name in SIZED:
            return _sizes(given[1:])
        if op.name in TAKES_SIZES:
            return _sizes(given)
        if op.name == "tensor":
            lists = (ast.List, ast.ListComp)
            return int(bool(given) and isinstance(given[0], lists))
        if op.name in REDUCTIONS:
            return self._reduced(given, call, scope, deep)
        if op.result in CONVERSIONS and is_method(found, call):
            return self._most(given[:1], scope, deep)
        keeps = is_elementwise(op) or op.name in KEEPS_SHAPE
        if keeps or op.name.endswith("_like"):
            return self._most(operands(found, call), scope, deep)
        return 0

    def _reduced(
        self, given: list[ast.expr], call: ast.Call, scope: Scope, deep: int
    ) -> int:
        """`x.sum(1)` of what has two dimensions at least, `x.sum(0, keepdim=True)`."""
        named = {one.arg: one.value for one in call.keywords}
        place = named.get("dim", given[1] if len(given) > 1 else None)
        dims = _numbers(place)
        if not dims:
            return 0
        before = max(self._most(given[:1], scope, deep), _needed(dims))
        kept = named.get("keepdim")
        is_kept = isinstance(kept, ast.Constant) and kept.value is True
        return before if is_kept else max(before - len(dims), 0)


def drawn_from(
    program: Program, call: ast.Call, methods: tuple[str, ...]
) -> list[tuple[ast.expr, Scope]]:
    """The parameters of the normal distribution, or one like it, that a method is asked of.

    `Normal(mean, spread).rsample()`, and `dist.rsample()` of a name that is bound once.
    """
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in methods:
        return []
    made = [func.value]
    if isinstance(func.value, ast.Name):
        bindings = program.reaching.at(func.value, func.value.id).bindings
        plain = all(b.how == "assign" and b.index is None for b in bindings)
        values = [b.value for b in bindings if b.value is not None]
        made = values if plain and len(values) == len(bindings) == 1 else []
    near = program.module.parents
    if len(made) != 1 or made[0] not in near:
        return []
    only = made[0]
    row = (
        distribution(program.canonical(only.func))
        if isinstance(only, ast.Call)
        else None
    )
    if row is None or not row.adds or not isinstance(only, ast.Call):
        return []
    home = program.module.scope_of(only)
    names = row.parameters.split()
    named = [one.value for one in only.keywords if one.arg in names]
    return [(one, home) for one in (*only.args[: len(names)], *named)]


def _sizes(given: list[ast.expr]) -> int:
    """`3, n`, `-1`, `(n, 3)`: not one size alone, which may be of no dimension."""
    only = given[0] if len(given) == 1 else None
    if isinstance(only, (ast.Tuple, ast.List)):
        given = only.elts
    elif not _numbers(only) and len(given) < 2:
        return 0
    is_open = any(isinstance(one, ast.Starred) for one in given)
    return 0 if is_open else len(given)


def _numbers(expr: ast.expr | None) -> list[int]:
    """The whole numbers that are written: `1`, `-1`, `(1, 2)`.

    Of several, all must be written.
    """
    if isinstance(expr, (ast.Tuple, ast.List)):
        found = [_numbers(one) for one in expr.elts]
        return [n for one in found for n in one] if all(found) else []
    sign = 1
    if isinstance(expr, ast.UnaryOp) and isinstance(expr.op, ast.USub):
        sign, expr = -1, expr.operand
    if isinstance(expr, ast.Constant) and type(expr.value) is int:
        return [sign * expr.value]
    return []


def _needed(dims: list[int]) -> int:
    """How many dimensions there are at least, where these are some of them; `0` and `-1` may be
    asked of a tensor without any.
    """
    most = max(one + 1 if one >= 0 else -one for one in dims)
    return most if most > 1 else 0
