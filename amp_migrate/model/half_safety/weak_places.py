"""Where half precision takes something away behind the operand of a logarithm, root or division.

The operand is followed back through assignments, helpers and models in sight, to where it was
saturated or guarded.
"""

from __future__ import annotations

import ast

from amp_migrate.model.bodies_abroad import (
    body_abroad,
    values_given,
)
from amp_migrate.model.half_safety.given_values import (
    added,
    passed_on,
    values_of,
    values_returned,
)
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.held_activations import (
    Activations,
    Construction,
    saturates,
)
from amp_migrate.model.half_safety.lost_guards import (
    guards_by_write,
    inner_number,
    is_lost,
    made_like,
    vanishes,
)
from amp_migrate.model.literals import number
from amp_migrate.model.names import dotted_name
from amp_migrate.model.numbers import numbers
from amp_migrate.model.syntax import Binding, Scope, shallow
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.model.tensors.spelling import given_to, operands, spelled
from amp_migrate.project.import_paths import resolved
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.ops import Spelling, Trait

_DEEP = 40
_THROUGH = frozenset("float to double neg mean pow square".split()) | {
    row.name for row in ops.shapes.ROWS if row.result == "same"
}
_JOINS = frozenset({"where", "cat", "stack"}) | {
    row.name for row in ops.writes.ROWS if row.strict is not None
}
_BOUNDS_ABOVE = ("clamp", "clamp_max", "minimum")


class WeakPlace(NamedTuple):
    """A place where half precision takes something away."""

    cast: ast.expr | None
    """What must be float32; None where nothing written there helps."""
    what: str
    saturates: bool
    split: ast.Call | None = None
    """A call of an `nn.Sequential` whose last layer must get float32."""
    file: str = ""
    """The other file of the project in which it stands."""


class Demand(NamedTuple):
    """What is done to a value: `complemented`, it has been taken from 1 before."""

    trait: Trait
    complemented: bool


class Search:
    """Follows one operand back."""

    def __init__(
        self, asked: Asked, trait: Trait, made: Construction | None = None
    ) -> None:
        """`made`: what made the object of which a method is searched."""
        self.asked = asked
        self.trait = trait
        self.activations = Activations(asked.inference, made)
        self.parameters: list[tuple[Binding, Demand]] = []
        """Those that were met, with what is done to them."""
        self._seen: set[ast.expr] = set()

    def of(self, operand: ast.expr, scope: Scope) -> list[WeakPlace]:
        """The weak places behind an operand that must not be zero."""
        return self.behind(operand, scope, _DEEP, complemented=False)

    def behind(
        self, expr: ast.expr, scope: Scope, deep: int, *, complemented: bool
    ) -> list[WeakPlace]:
        """The weak places behind `expr`; `complemented`: it has been taken from 1."""
        if deep == 0 or expr in self._seen:
            return []
        self._seen.add(expr)
        if isinstance(expr, (ast.Name, ast.Attribute)):
            return self._named(expr, scope, deep, complemented)
        if isinstance(expr, ast.Call):
            return self._call(expr, scope, deep, complemented)
        if isinstance(expr, ast.BinOp) and not isinstance(expr.op, ast.Pow):
            return self._operation(expr, scope, deep, complemented)
        home = self.asked.inference.program.module.scope_of
        return [
            weak
            for inner in passed_on(expr, scope)
            for weak in self.behind(
                inner, home(inner), deep - 1, complemented=complemented
            )
        ]

    def under(
        self, demand: Demand, expr: ast.expr, scope: Scope
    ) -> list[WeakPlace]:
        """The weak places behind an argument of which `demand` is made elsewhere."""
        return self.behind(expr, scope, _DEEP, complemented=demand.complemented)

    def kept_below_one(self, call: ast.Call, scope: Scope) -> list[WeakPlace]:
        """The weak place behind `clamp(p, 1e-4, 1 - 1e-4)`, whose upper bound is 1 in half."""
        found = spelled(self.asked.inference, call, scope)
        if found is None or found.op.name not in _BOUNDS_ABOVE:
            return []
        bounds = [*call.args, *(one.value for one in call.keywords)]
        program = self.asked.inference.program
        sizes = [one for b in bounds for one in numbers(program, b, scope)]
        if not any(size > 0.5 and is_lost(size) for size in sizes):
            return []
        return self._clamped(call, found, scope, _DEEP, complemented=True)

    # -- names

    def _named(
        self,
        expr: ast.Name | ast.Attribute,
        scope: Scope,
        deep: int,
        complemented: bool,
    ) -> list[WeakPlace]:
        dotted = dotted_name(expr)
        program = self.asked.inference.program
        reach = (
            program.reaching.at(expr, dotted) if dotted is not None else None
        )
        if reach is None or not reach.bindings:
            if isinstance(expr, ast.Attribute) and ops.method(expr.attr):
                return self.behind(
                    expr.value, scope, deep - 1, complemented=complemented
                )
            return []
        found: list[WeakPlace] = []
        for binding in reach.bindings:
            if binding.how == "parameter":
                demand = Demand(self.trait, complemented)
                self.parameters.append((binding, demand))
            for value, home in values_of(self.asked.inference, binding):
                found += self.behind(
                    value, home, deep - 1, complemented=complemented
                )
            found += self._part(binding, deep, complemented)
        for value in added(scope, dotted or ""):
            found += self.behind(
                value, scope, deep - 1, complemented=complemented
            )
        return found or self._written(expr, dotted or "", reach.bindings, scope)

    def _part(
        self, binding: Binding, deep: int, complemented: bool
    ) -> list[WeakPlace]:
        """One of the values that a function or model of another file returns together."""
        call, index = binding.value, binding.index
        if not isinstance(call, ast.Call) or index is None:
            return []
        scope = self.asked.inference.program.module.scope_of(call)
        return self._abroad(call, scope, deep, complemented, index)

    def _written(
        self,
        expr: ast.expr,
        dotted: str,
        bindings: tuple[Binding, ...],
        scope: Scope,
    ) -> list[WeakPlace]:
        """`d[d < 1e-10] = 1e-10`: a guard by a write, which is as weak where `d` is half."""
        if not self.asked.fact(expr, scope).may_be_half:
            return []
        for statement in (node for top in scope.body for node in shallow(top)):
            if isinstance(statement, ast.Assign) and guards_by_write(
                statement, dotted, scope
            ):
                values = [one.value for one in bindings if one.how == "assign"]
                casts = [one for one in values if one is not None]
                what = vanishes(statement.value)
                if len(casts) != len(bindings):
                    return [WeakPlace(None, what, saturates=False)]
                return [WeakPlace(one, what, saturates=False) for one in casts]
        return []

    # -- operations

    def _operation(
        self, expr: ast.BinOp, scope: Scope, deep: int, complemented: bool
    ) -> list[WeakPlace]:
        if (
            isinstance(expr.op, ast.Sub)
            and number(expr.left, scope) is not None
        ):
            return self.behind(expr.right, scope, deep - 1, complemented=True)
        if not isinstance(expr.op, (ast.Add, ast.Sub, ast.Mult)):
            return []
        found: list[WeakPlace] = []
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
    ) -> list[WeakPlace]:
        """A constant that half precision rounds away, beside a value that may be half."""
        sizes = numbers(self.asked.inference.program, constant, scope)
        if not any(is_lost(abs(size)) for size in sizes):
            return []
        if not self.asked.needs_cast(value, scope):
            return []
        return [WeakPlace(value, vanishes(constant), saturates=False)]

    def _call(
        self, call: ast.Call, scope: Scope, deep: int, complemented: bool
    ) -> list[WeakPlace]:
        found = spelled(self.asked.inference, call, scope)
        if found is None:
            return self._of_object(call, scope, deep, complemented)
        given = operands(found, call)
        if saturates(found.op) and given:
            return self._saturated(call, given[0], scope, complemented)
        if found.op.name in (*_BOUNDS_ABOVE, "clamp_min", "maximum"):
            return self._clamped(call, found, scope, deep, complemented)
        if found.op.name not in _THROUGH | _JOINS:
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
    ) -> list[WeakPlace]:
        inside = self.asked.inference.inside(call)
        matters = self.trait is Trait.LOG or complemented
        if (
            not inside
            or not matters
            or not self.asked.needs_cast(operand, scope)
        ):
            return []
        what = f"`{ast.unparse(call)}` is exactly 0 or 1 in float16 where float32 is not"
        return [WeakPlace(operand, what, saturates=True)]

    def _clamped(
        self,
        call: ast.Call,
        found: Spelling,
        scope: Scope,
        deep: int,
        complemented: bool,
    ) -> list[WeakPlace]:
        given = given_to(found, call)
        if not given:
            return []
        weak = self.behind(given[0], scope, deep - 1, complemented=complemented)
        if weak:
            return weak
        for bound in [*given[1:], *(one.value for one in call.keywords)]:
            is_number = bool(
                numbers(self.asked.inference.program, bound, scope)
            )
            inner = bound if is_number else inner_number(bound)
            guard = self._guard(given[0], inner, scope)
            if guard:
                is_like = not is_number and made_like(bound, given[0])
                return (
                    [one._replace(cast=None) for one in guard]
                    if is_like
                    else guard
                )
        return []

    # -- helpers, layers and models

    def _of_object(
        self, call: ast.Call, scope: Scope, deep: int, complemented: bool
    ) -> list[WeakPlace]:
        program = self.asked.inference.program
        value = program.values.of(call.func, scope)
        row = layers.layer(value.name)
        if row is not None and row.op is not None and call.args:
            if Trait.SATURATES in row.op.traits and row.op.policy == "keeps":
                return self._saturated(call, call.args[0], scope, complemented)
        if call.args and self.activations.may_saturate(call.func, scope):
            return self._saturated(call, call.args[0], scope, complemented)
        if self.activations.ends_saturated(value):
            return self._sequence(call, complemented)
        return [
            weak
            for one, home in values_returned(program, call, scope)
            for weak in self.behind(
                one, home, deep - 1, complemented=complemented
            )
        ] or self._abroad(call, scope, deep, complemented)

    def _sequence(self, call: ast.Call, complemented: bool) -> list[WeakPlace]:
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
            WeakPlace(None, what, saturates=True, split=call if plain else None)
        ]

    def _abroad(
        self,
        call: ast.Call,
        scope: Scope,
        deep: int,
        complemented: bool,
        index: int | None = None,
    ) -> list[WeakPlace]:
        """The same in a helper or a model of another file, where nothing that is written here
        helps; `index`: which of several values it gives.
        """
        inference = self.asked.inference
        found = body_abroad(inference.program, call, scope)
        if found is None or not inference.inside(call):
            return []
        program, function = found
        is_model = program.scope(function).self_name is not None
        given = (inference.of(one, scope).may_be_half for one in call.args)
        if not (is_model or any(given)):
            return []
        dtype = inference.where(call)
        there = Inference(program, lambda node: dtype, lambda node: None)
        asked = Asked(there, self.asked.float16)
        search = Search(asked, self.trait, self._construction(call, scope))
        inner = program.scope(function)
        weak = [
            one
            for value in values_given(function, index)
            for one in search.behind(
                value, inner, deep - 1, complemented=complemented
            )
        ]
        file = resolved(program.module.path)
        return [
            one._replace(cast=None, split=None, file=one.file or file)
            for one in weak[:1]
        ]

    def _construction(
        self, call: ast.Call, scope: Scope
    ) -> Construction | None:
        """What made the object that a call runs."""
        made = self.asked.inference.program.values.of(call.func, scope).origin
        if not isinstance(made, ast.Call):
            return None
        return Construction(made, scope, self.activations)
