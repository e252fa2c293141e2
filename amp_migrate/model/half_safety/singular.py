"""Logarithms, roots and divisions whose guard half precision takes away.

In half, a sigmoid is exactly 0 or 1 where float32 is not, `1 - 1e-4` is 1, and `1e-8` is 0. So the
value that a logarithm or a division gets is followed back to where it was saturated or guarded,
through assignments, helpers and models in sight; the cast stands there, before the damage.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.kinds import Value
from amp_migrate.model.literals import number
from amp_migrate.model.names import dotted_name
from amp_migrate.model.numbers import numbers
from amp_migrate.model.syntax import Binding, Scope, returned, shallow
from amp_migrate.model.tensors.calls import operands, spelled
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.amp_api import HALF_EPSILON
from amp_migrate.torch_facts.ops import Spelling, Trait

_DEEP = 16
_SMALLEST = 2.0**-24
_THROUGH = frozenset(
    row.name for row in ops.shapes.ROWS if row.result == "same"
) | {
    "float",
    "to",
    "double",
    "neg",
    "mean",
}


_BOUNDS_ABOVE = ("clamp", "clamp_max", "minimum")


class _Weak(NamedTuple):
    """A place where half precision takes something away."""

    cast: ast.expr | None
    """What must be float32; None where nothing written there helps."""
    what: str
    saturates: bool
    split: ast.Call | None = None
    """A call of an `nn.Sequential` whose last layer must get float32."""


def hazards(asked: Asked, node: ast.AST, scope: Scope) -> Iterator[Hazard]:
    """The logarithms, roots and divisions at `node`."""
    for operand, trait in _singular(asked, node, scope):
        search = _Search(asked, trait)
        for weak in search.behind(operand, scope, _DEEP, complemented=False):
            yield _hazard(weak, node)
    if isinstance(node, ast.Call):
        # What is kept below 1 is taken from 1 somewhere, wherever that may be.
        yield from (
            _hazard(w, node)
            for w in _Search(asked, Trait.LOG).kept_below_one(node, scope)
        )


def _hazard(weak: _Weak, node: ast.AST) -> Hazard:
    casts = () if weak.cast is None else (weak.cast,)
    return Hazard("eps-underflow", node, casts, weak.what, split=weak.split)


def _singular(
    asked: Asked, node: ast.AST, scope: Scope
) -> Iterator[tuple[ast.expr, Trait]]:
    """Operands that must not be zero, with the trait of what is done to them."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield node.right, Trait.DIVIDES
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        yield node.value, Trait.DIVIDES
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        power = number(node.right, scope)
        if power is not None and power < 0:
            yield node.left, Trait.DIVIDES
    elif isinstance(node, ast.Call):
        found = spelled(asked.inference, node, scope)
        if found is not None:
            yield from _of_call(found, node)


def _of_call(
    found: Spelling, call: ast.Call
) -> Iterator[tuple[ast.expr, Trait]]:
    for trait in (Trait.LOG, Trait.DIVIDES, Trait.SQRT):
        given = operands(found, call)
        if trait in found.op.traits and given:
            yield given[-1], trait
            return


class _Search:
    """Follows one operand back."""

    def __init__(self, asked: Asked, trait: Trait) -> None:
        self.asked = asked
        self.trait = trait
        self._seen: set[ast.expr] = set()

    def behind(
        self, expr: ast.expr, scope: Scope, deep: int, *, complemented: bool
    ) -> list[_Weak]:
        """The weak places behind `expr`; `complemented`: it has been taken from 1."""
        if deep == 0 or expr in self._seen:
            return []
        self._seen.add(expr)
        if isinstance(expr, (ast.Name, ast.Attribute)):
            return self._named(expr, scope, deep, complemented)
        if isinstance(expr, ast.Call):
            return self._call(expr, scope, deep, complemented)
        if isinstance(expr, ast.BinOp):
            return self._operation(expr, scope, deep, complemented)
        return [
            weak
            for inner in _parts(expr)
            for weak in self.behind(
                inner, scope, deep - 1, complemented=complemented
            )
        ]

    def kept_below_one(self, call: ast.Call, scope: Scope) -> list[_Weak]:
        """The weak place behind `clamp(p, 1e-4, 1 - 1e-4)`, whose upper bound is 1 in half."""
        found = spelled(self.asked.inference, call, scope)
        if found is None or found.op.name not in _BOUNDS_ABOVE:
            return []
        bounds = [*call.args, *(one.value for one in call.keywords)]
        sizes = [number(bound, scope) for bound in bounds]
        if not any(
            size is not None and size > 0.5 and _is_lost(size) for size in sizes
        ):
            return []
        return self._clamped(call, found, scope, _DEEP, complemented=True)

    # -- names

    def _named(
        self,
        expr: ast.Name | ast.Attribute,
        scope: Scope,
        deep: int,
        complemented: bool,
    ) -> list[_Weak]:
        dotted = dotted_name(expr)
        program = self.asked.inference.program
        reach = (
            program.reaching.at(expr, dotted) if dotted is not None else None
        )
        if reach is None or not reach.bindings:
            is_view = (
                isinstance(expr, ast.Attribute)
                and ops.method(expr.attr) is not None
            )
            inner = (
                expr.value
                if isinstance(expr, ast.Attribute) and is_view
                else None
            )
            return (
                self.behind(inner, scope, deep - 1, complemented=complemented)
                if inner is not None
                else []
            )
        found: list[_Weak] = []
        for binding in reach.bindings:
            for value, home in self._values(binding):
                found += self.behind(
                    value, home, deep - 1, complemented=complemented
                )
        return found or self._written(expr, dotted or "", reach.bindings, scope)

    def _values(self, binding: Binding) -> Iterator[tuple[ast.expr, Scope]]:
        """What a binding gives: the value, or what the callers pass."""
        inference = self.asked.inference
        module = inference.program.module
        if binding.how == "parameter":
            yield from inference.passed(binding)
        elif binding.value is not None and binding.how in (
            "assign",
            "walrus",
            "augmented",
        ):
            value = binding.value
            if binding.index is not None:
                if not isinstance(value, (ast.Tuple, ast.List)):
                    yield from self._element(value, binding.index)
                    return
                value = (
                    value.elts[binding.index]
                    if binding.index < len(value.elts)
                    else value
                )
            yield value, module.scope_of(value)

    def _element(
        self, value: ast.expr, index: int
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """One of the values that a function in sight returns together."""
        program = self.asked.inference.program
        scope = program.module.scope_of(value)
        if not isinstance(value, ast.Call):
            return
        for one, home in self._returned(value, scope):
            if isinstance(one, ast.Tuple) and index < len(one.elts):
                yield one.elts[index], home

    def _written(
        self,
        expr: ast.expr,
        dotted: str,
        bindings: tuple[Binding, ...],
        scope: Scope,
    ) -> list[_Weak]:
        """`d[d < 1e-10] = 1e-10`: a guard by a write, which is as weak where `d` is half."""
        if not self.asked.fact(expr, scope).may_be_half:
            return []
        for statement in (node for top in scope.body for node in shallow(top)):
            if isinstance(statement, ast.Assign) and _guards_by_write(
                statement, dotted, scope
            ):
                values = [one.value for one in bindings if one.how == "assign"]
                casts = [one for one in values if one is not None]
                what = _vanishes(statement.value)
                if len(casts) != len(bindings):
                    return [_Weak(None, what, saturates=False)]
                return [_Weak(one, what, saturates=False) for one in casts]
        return []

    # -- operations

    def _operation(
        self, expr: ast.BinOp, scope: Scope, deep: int, complemented: bool
    ) -> list[_Weak]:
        if (
            isinstance(expr.op, ast.Sub)
            and number(expr.left, scope) is not None
        ):
            return self.behind(expr.right, scope, deep - 1, complemented=True)
        if not isinstance(expr.op, (ast.Add, ast.Sub, ast.Mult)):
            return []
        found: list[_Weak] = []
        for value, other in ((expr.left, expr.right), (expr.right, expr.left)):
            if number(value, scope) is not None:
                continue
            weak = self.behind(
                value, scope, deep - 1, complemented=complemented
            )
            if not weak and isinstance(expr.op, (ast.Add, ast.Sub)):
                weak = self._guard(value, other, scope)
            found += weak
        return found

    def _guard(
        self, value: ast.expr, constant: ast.expr, scope: Scope
    ) -> list[_Weak]:
        """A constant that half precision rounds away, beside a value that may be half."""
        sizes = numbers(self.asked.inference.program, constant, scope)
        if not any(_is_lost(abs(size)) for size in sizes):
            return []
        if not self.asked.needs_cast(value, scope):
            return []
        return [_Weak(value, _vanishes(constant), saturates=False)]

    def _call(
        self, call: ast.Call, scope: Scope, deep: int, complemented: bool
    ) -> list[_Weak]:
        found = spelled(self.asked.inference, call, scope)
        if found is None:
            return self._of_object(call, scope, deep, complemented)
        given = operands(found, call)
        if _saturates(found) and given:
            return self._saturated(call, given[0], scope, complemented)
        if found.op.name in (*_BOUNDS_ABOVE, "clamp_min", "maximum"):
            return self._clamped(call, found, scope, deep, complemented)
        if found.op.name not in _THROUGH and found.op.name not in (
            "where",
            "cat",
            "stack",
        ):
            return []
        return [
            weak
            for one in given
            for weak in self.behind(
                one, scope, deep - 1, complemented=complemented
            )
        ]

    def _saturated(
        self,
        call: ast.expr,
        operand: ast.expr,
        scope: Scope,
        complemented: bool,
    ) -> list[_Weak]:
        inside = self.asked.inference.inside(call)
        matters = self.trait is Trait.LOG or complemented
        if (
            not inside
            or not matters
            or not self.asked.needs_cast(operand, scope)
        ):
            return []
        what = f"`{ast.unparse(call)}` is exactly 0 or 1 in float16 where float32 is not"
        return [_Weak(operand, what, saturates=True)]

    def _clamped(
        self,
        call: ast.Call,
        found: Spelling,
        scope: Scope,
        deep: int,
        complemented: bool,
    ) -> list[_Weak]:
        is_method = found.form != "function" and isinstance(
            call.func, ast.Attribute
        )
        given = [call.func.value, *call.args] if is_method else list(call.args)  # type: ignore[attr-defined]
        if not given:
            return []
        weak = self.behind(given[0], scope, deep - 1, complemented=complemented)
        if weak:
            return weak
        for bound in [*given[1:], *(one.value for one in call.keywords)]:
            is_number = bool(
                numbers(self.asked.inference.program, bound, scope)
            )
            inner = bound if is_number else _inner_number(bound)
            guard = self._guard(given[0], inner, scope)
            if guard:
                is_like = not is_number and _made_like(bound, given[0])
                return (
                    [one._replace(cast=None) for one in guard]
                    if is_like
                    else guard
                )
        return []

    # -- helpers, layers and models

    def _of_object(
        self, call: ast.Call, scope: Scope, deep: int, complemented: bool
    ) -> list[_Weak]:
        program = self.asked.inference.program
        value = program.values.of(call.func, scope)
        row = layers.layer(value.name)
        if row is not None and row.op is not None and call.args:
            if Trait.SATURATES in row.op.traits and row.op.policy == "keeps":
                return self._saturated(call, call.args[0], scope, complemented)
        if self._ends_saturated(value):
            return self._sequence(call, complemented)
        return [
            weak
            for one, home in self._returned(call, scope)
            for weak in self.behind(
                one, home, deep - 1, complemented=complemented
            )
        ] or self._abroad(call, scope, deep, complemented)

    def _ends_saturated(self, value: Value) -> bool:
        """`nn.Sequential(..., nn.Sigmoid())`"""
        program, made = self.asked.inference.program, value.origin
        if not isinstance(made, ast.Call) or not made.args:
            return False
        if value.name in layers.WRAPPERS:
            return self._ends_saturated(
                program.values.of(made.args[0], program.module.scope_of(made))
            )
        if not (value.name or "").endswith(".Sequential"):
            return False
        last = program.values.of(made.args[-1], program.module.scope_of(made))
        row = layers.layer(last.name)
        op = row.op if row is not None else None
        return (
            op is not None
            and Trait.SATURATES in op.traits
            and op.policy == "keeps"
        )

    def _sequence(self, call: ast.Call, complemented: bool) -> list[_Weak]:
        """The last layer gets float32 where the sequence has a name; else nothing helps there."""
        inference = self.asked.inference
        matters = self.trait is Trait.LOG or complemented
        if not matters or not inference.inside(call) or call in inference.casts:
            return []
        what = f"`{ast.unparse(call)}` is exactly 0 or 1 in float16 where float32 is not"
        plain = (
            len(call.args) == 1
            and not call.keywords
            and dotted_name(call.func) is not None
        )
        return [
            _Weak(None, what, saturates=True, split=call if plain else None)
        ]

    def _abroad(
        self, call: ast.Call, scope: Scope, deep: int, complemented: bool
    ) -> list[_Weak]:
        """The same in a helper of another file, where nothing that is written here helps."""
        inference = self.asked.inference
        found = inference.program.values.abroad(call.func, scope)
        if (
            found is None
            or isinstance(found[1], ast.ClassDef)
            or not inference.inside(call)
        ):
            return []
        if not any(inference.of(one, scope).may_be_half for one in call.args):
            return []
        program, function = found[0], found[1]
        dtype = inference.where(call)
        there = Inference(program, lambda node: dtype, lambda node: None)
        search = _Search(Asked(there, self.asked.float16), self.trait)
        inner = program.scope(function)
        weak = [
            one
            for value in returned(function)
            for one in search.behind(
                value, inner, deep - 1, complemented=complemented
            )
        ]
        return [one._replace(cast=None, split=None) for one in weak[:1]]

    def _returned(
        self, call: ast.Call, scope: Scope
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """What the function, or the model's `forward`, in sight gives back."""
        program = self.asked.inference.program
        functions = list(program.values.callees(call, scope))
        value = program.values.of(call.func, scope)
        if not functions and value.cls is not None:
            own = program.graph.method(value.cls, "forward")
            functions = [own] if own is not None else []
        for function in functions:
            if function.name != "__init__":
                home = program.scope(function)
                yield from ((one, home) for one in returned(function))


def _saturates(found: Spelling) -> bool:
    return Trait.SATURATES in found.op.traits and found.op.policy == "keeps"


def _is_lost(size: float) -> bool:
    """Whether float16 rounds a guard to 0, or to 1."""
    return 0 < size < _SMALLEST or 1 - HALF_EPSILON < size < 1


def _vanishes(constant: ast.expr) -> str:
    return f"`{ast.unparse(constant)}` is rounded away in float16, so it guards nothing"


def _inner_number(bound: ast.expr) -> ast.expr:
    """`torch.tensor(1e-8)`, `torch.full_like(x, 1e-8)` and `1e-8 * torch.ones_like(x)` guard as
    `1e-8` does.
    """
    if isinstance(bound, ast.Call) and bound.args:
        return bound.args[-1]
    if isinstance(bound, ast.BinOp):
        return (
            bound.left
            if isinstance(bound.left, (ast.Constant, ast.Name))
            else bound.right
        )
    return bound


def _made_like(bound: ast.expr, value: ast.expr) -> bool:
    """Whether a bound takes its dtype from the value that it bounds: `torch.full_like(x, 1e-8)`."""
    text = ast.unparse(value)
    return any(
        isinstance(n, ast.expr) and ast.unparse(n) == text
        for n in ast.walk(bound)
    )


def _guards_by_write(statement: ast.Assign, dotted: str, scope: Scope) -> bool:
    target = statement.targets[0]
    size = number(statement.value, scope)
    return (
        isinstance(target, ast.Subscript)
        and dotted_name(target.value) == dotted
        and isinstance(target.slice, ast.Compare)
        and size is not None
        and _is_lost(abs(size))
    )


def _parts(expr: ast.expr) -> list[ast.expr]:
    """What an expression passes on unchanged, or turned around."""
    if isinstance(expr, ast.IfExp):
        return [expr.body, expr.orelse]
    if isinstance(expr, ast.UnaryOp):
        return [expr.operand]
    if isinstance(expr, (ast.Subscript, ast.NamedExpr, ast.Starred)):
        return [expr.value]
    return []
