"""Where half precision takes something away behind a value that a logarithm, root or division gets,
or a binary cross-entropy.

The value is followed back through assignments, containers, helpers and models in sight, to where it
was saturated or guarded: what half precision takes away there, no later cast brings back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.conditions.arms import never_runs
from amp_migrate.model.forwards.sequence_calls import sequences
from amp_migrate.model.forwards.sequence_ends import ends
from amp_migrate.model.half_safety.code_run import Foreign, code_run
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.held_activations import (
    Activations,
    Construction,
    is_clamped,
    saturates,
    told_saturated,
)
from amp_migrate.model.half_safety.looped_layers import run_by_loop
from amp_migrate.model.half_safety.lost_guards import (
    guarded,
    keeps_below_one,
    lost_bound,
    lost_write,
)
from amp_migrate.model.half_safety.named_values import Names, Step
from amp_migrate.model.half_safety.passed_values import (
    makes_anew,
    passes,
    taken_from,
)
from amp_migrate.model.half_safety.rounded_writes import held_by
from amp_migrate.model.half_safety.sums_behind import behind_operation
from amp_migrate.model.half_safety.trail import (
    Demand,
    Origin,
    Place,
    Trail,
    Unseen,
    WeakPlace,
    joined,
)
from amp_migrate.model.half_safety.value_parts import (
    Path,
    elements,
    entries,
    stepped,
)
from amp_migrate.model.syntax.module import Binding, Scope, returned
from amp_migrate.model.tensors.spelling import (
    given_to,
    operands,
    spelled,
)
from amp_migrate.model.values.literals import number
from amp_migrate.project.import_paths import resolved
from amp_migrate.torch_facts import layers
from amp_migrate.torch_facts.ops import Op, Spelling, Trait, symbol_of
from amp_migrate.torch_facts.ops.roles import BOUNDS_ABOVE, CASTS

_GIVEN = Trail(origin=Origin.GIVEN)
_RAW = Trail(origin=Origin.RAW)


class Search:
    """Follows one value back."""

    def __init__(
        self,
        asked: Asked,
        trait: Trait,
        made: Construction | None = None,
        *,
        whole: bool = False,
    ) -> None:
        """`made`: what made the object of which a method is searched. `whole`: the value is a
        probability, of which everything is asked that it may be; else where it may be 0 or 1.
        """
        self.asked = asked
        self.program = asked.inference.program
        self.trait = trait
        self.whole = whole
        self.activations = Activations(asked.inference, made)
        self.names = Names(asked, is_whole=whole)
        self.unseen: list[Unseen] = []
        """Where the search ended without an answer."""
        self.products: dict[ast.expr, Scope] = {}
        """The products of matrices at which it ended."""
        self.shifted: set[ast.expr] = set()
        """Those to which a number is added, or which are taken from one."""
        self.met: set[ast.expr] = set()
        """The expressions that were followed."""
        self._seen: set[tuple[ast.AST, Path, int, bool]] = set()

    def of(self, operand: ast.expr, scope: Scope) -> tuple[WeakPlace, ...]:
        """The weak places behind an operand that must not be zero."""
        return self.behind(operand, Place(scope)).weak

    def under(
        self, demand: Demand, expr: ast.expr, scope: Scope
    ) -> tuple[WeakPlace, ...]:
        """The weak places behind an argument of which `demand` is made elsewhere."""
        place = Place(scope, complemented=demand.complemented)
        return self.behind(expr, place, demand.path).weak

    def kept_below_one(
        self, call: ast.Call, scope: Scope
    ) -> tuple[WeakPlace, ...]:
        """The weak place behind `clamp(p, 1e-4, 1 - 1e-4)`, whose upper bound is 1 in half."""
        found = spelled(self.asked.inference, call, scope)
        if found is None or found.op.name not in BOUNDS_ABOVE:
            return ()
        if not keeps_below_one(self.asked, call, scope):
            return ()
        place = Place(scope, complemented=True)
        given = given_to(found, call)
        return self._clamped(call, given, place).weak if given else ()

    def behind(self, expr: ast.expr, place: Place, path: Path = ()) -> Trail:
        """What is behind the part of `expr` to which `path` leads."""
        if not self._is_new(expr, place, path):
            return Trail()
        self.met.add(expr)
        if place.depth == 0:
            return self._lost(expr, "the sigmoid is out of sight")
        if isinstance(expr, (ast.Name, ast.Attribute)):
            return self._named(expr, place, path)
        if isinstance(expr, ast.Call):
            return self._call(expr, place, path)
        if isinstance(expr, ast.Subscript):
            step = place.at(place.scope)
            return self.behind(expr.value, step, (*stepped(expr), *path))
        if isinstance(expr, ast.BinOp):
            sides = expr.left, expr.right
            return behind_operation(self, expr, expr.op, sides, place)
        return self._form(expr, place, path)

    def _is_new(self, node: ast.AST, place: Place, path: Path) -> bool:
        """Whether a node was not met in the same way before."""
        depth = len(place.frames)
        key = node, path, depth, place.complemented
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def _lost(self, node: ast.AST, why: str) -> Trail:
        """Nothing, which is noted."""
        unseen = Unseen(node, why)
        self.unseen.append(unseen)
        return Trail()

    # -- expressions

    def _form(self, expr: ast.expr, place: Place, path: Path) -> Trail:
        step = place.at(place.scope)
        if isinstance(expr, (ast.Tuple, ast.List)):
            return self._all(elements(expr, path), step)
        if isinstance(expr, ast.Dict):
            return self._all(entries(expr, path), step)
        if isinstance(expr, (ast.ListComp, ast.GeneratorExp)):
            inner = self.program.module.scope_of(expr.elt)
            return self.behind(expr.elt, place.at(inner), path[1:])
        if isinstance(expr, ast.IfExp):
            return self._any([(expr.body, path), (expr.orelse, path)], step)
        if isinstance(expr, ast.UnaryOp):
            return self.behind(expr.operand, step, path)
        if isinstance(expr, (ast.NamedExpr, ast.Starred)):
            return self.behind(expr.value, step, path)
        if number(expr, place.scope) is not None:
            return _GIVEN
        if isinstance(expr, ast.Constant) and expr.value is None:
            return Trail()  # `[None for _ in nets]`: a place that is filled
        return self._lost(expr, "it is no plain sigmoid")

    def _any(
        self, values: Iterable[tuple[ast.expr, Path]], place: Place
    ) -> Trail:
        """One of several values, or all of them together."""
        found = [self.behind(one, place, path) for one, path in values]
        return joined(found)

    def _all(
        self, values: Iterable[tuple[ast.expr, Path]], place: Place
    ) -> Trail:
        """Values each of which is asked for."""
        found = [self.behind(one, place, path) for one, path in values]
        is_raw = any(one.origin == Origin.RAW for one in found)
        whole = joined(found)
        return whole._replace(origin=Origin.RAW) if is_raw else whole

    # -- names

    def _named(
        self, expr: ast.Name | ast.Attribute, place: Place, path: Path
    ) -> Trail:
        run = run_by_loop(self.program, expr, place.scope)
        if run is not None and self.whole:
            return self._looped(*run, place)
        steps = self.names.behind(expr, place, path)
        written = map(self._follow, self.names.written(expr, place, path))
        kept, rounded = held_by(self.asked, joined(written), expr, place.scope)
        self.unseen += rounded
        found = joined([*map(self._follow, steps), kept])
        if found.weak or self.whole:
            return found
        return Trail(lost_write(self.asked, expr, place.scope), found.origin)

    def _follow(self, step: Step) -> Trail:
        if isinstance(step, Origin):
            return Trail(origin=step)
        if isinstance(step, Unseen):
            self.unseen.append(step)
            return Trail()
        return self.behind(*step)

    @property
    def parameters(self) -> list[tuple[Binding, Demand]]:
        """Those that were met, with what is done to them."""
        return [
            (one, Demand(self.trait, complemented, path))
            for one, complemented, path in self.names.parameters
        ]

    # -- operators

    def _call(self, call: ast.Call, place: Place, path: Path) -> Trail:
        if self.program.canonical(call.func) in layers.PARAMETERS:
            return _GIVEN
        found = spelled(self.asked.inference, call, place.scope)
        if found is not None:
            return self._operator(found, call, place)
        if (taken := taken_from(self.program, call)) is not None:
            value, step = taken
            return self.behind(value, place.at(place.scope), (*step, *path))
        if call.args and self.activations.may_saturate(call.func, place.scope):
            return self._saturated(call, call.args[0], place)
        row = layers.layer(self.program.values.of(call.func, place.scope).name)
        if row is not None and row.role == "layer" and row.op is not None:
            return self._applied(row.op, call, call.args[:1], place)
        run = [made for _, made in sequences(self.program, call, place.scope)]
        if run:
            return self._sequence(call, run, place)
        return self._results(call, place, path)

    def _operator(self, found: Spelling, call: ast.Call, place: Place) -> Trail:
        op = found.op
        bounded = guarded(self.asked, found, call, place.scope)
        if bounded and not self.whole:
            return self._clamped(call, bounded, place)
        symbol, sides = symbol_of(op), given_to(found, call)
        if symbol is not None and len(sides) == 2 and not call.keywords:
            pair = sides[0], sides[1]
            return behind_operation(self, call, symbol, pair, place)
        is_cast = op.result in CASTS
        given = operands(found, call) or given_to(found, call)[:is_cast]
        return self._applied(op, call, given, place)

    def _applied(
        self, op: Op, call: ast.Call, given: list[ast.expr], place: Place
    ) -> Trail:
        """What an operator of torch makes of its operands."""
        if saturates(op) and given:
            return self._saturated(call, given[0], place)
        if op.policy == "lower":
            return self.product(call, place)
        is_one = place.complemented or self.whole
        if makes_anew(op, complemented=is_one) or not given:
            return _GIVEN
        if not (self.whole or passes(op, self.trait)):
            return Trail()
        step = place.at(place.scope)
        found = joined([self.behind(one, step) for one in given])
        if found.origin == Origin.RAW and is_clamped(op, call, place.scope):
            return self._saturated(call, given[0], place)
        return found

    def _saturated(
        self, call: ast.Call, operand: ast.expr, place: Place
    ) -> Trail:
        """A sigmoid, which needs float32."""
        inside = self.asked.inference.inside(call)
        is_half = self.asked.needs_cast(operand, place.scope)
        is_weak = (
            is_half or not inside
            if self.whole
            else inside and is_half and self._matters(place)
        )
        found = WeakPlace(operand, told_saturated(call), saturates=True)
        return Trail((found,) if is_weak else (), Origin.SQUASHED)

    def _clamped(
        self, call: ast.Call, given: list[ast.expr], place: Place
    ) -> Trail:
        """What is guarded by a bound, which half precision may take away."""
        behind = self.behind(given[0], place.at(place.scope))
        if behind.weak:
            return behind
        weak = lost_bound(self.asked, call, given, place.scope)
        return Trail(weak, behind.origin)

    def product(self, node: ast.expr, place: Place) -> Trail:
        """A product of matrices, which autocast computes in half precision."""
        self.products[node] = place.scope
        return _RAW

    # -- layers, helpers and models

    def _sequence(
        self, call: ast.Call, run: list[ast.Call], place: Place
    ) -> Trail:
        """A `nn.Sequential` in sight, of which the last layer may get float32."""
        origin = Origin.NONE
        for last in [one for made in run for one in ends(self.program, made)]:
            gives = self.activations.origin(last)
            if gives is None:
                self._lost(call, "the sigmoid is in an nn.Sequential")
            origin |= gives or Origin.NONE
        value = self.program.values.of(call.func, place.scope)
        is_squashed = Origin.SQUASHED in origin
        if not (is_squashed or self.activations.ends_saturated(value)):
            return Trail(origin=origin)
        is_float = Origin.RAW not in origin
        weak = WeakPlace(None, told_saturated(call), True, call, is_float)
        return Trail((weak,) if self._is_weak(call, place) else (), origin)

    def _looped(
        self, call: ast.Call, last: list[ast.expr | None], place: Place
    ) -> Trail:
        """A loop over layers, each of which may get float32."""
        given = [self.activations.origin(one) for one in last]
        if None in given:
            return self._lost(call, "the sigmoid is in an nn.ModuleList")
        origins = [Trail(origin=one) for one in given if one is not None]
        if not any(Origin.SQUASHED in one.origin for one in origins):
            return joined(origins)
        return joined([*origins, self._saturated(call, call.args[0], place)])

    def _is_weak(self, call: ast.Call, place: Place) -> bool:
        """Whether it counts that a layer saturates in a call."""
        inference = self.asked.inference
        is_half = inference.inside(call) and call not in inference.casts
        return self.whole or self._matters(place) and is_half

    def _matters(self, place: Place) -> bool:
        """Whether it counts that a value is 1, or, where float16's range ends, that it is 0."""
        is_edge = self.trait in (Trait.LOG, Trait.SQRT) and self.asked.float16
        return is_edge or place.complemented

    def _results(self, call: ast.Call, place: Place, path: Path) -> Trail:
        """What functions and models give back, where no option makes it something else."""
        value = self.program.values.of(call.func, place.scope)
        if self.activations.ends_saturated(value):  # which nothing splits
            weak = WeakPlace(None, told_saturated(call), saturates=True)
            is_weak = not self.whole and self._is_weak(call, place)
            return Trail((weak,) if is_weak else ())
        run = code_run(self.program, call, place.scope)
        self.unseen += [run.unseen] if run.unseen is not None else []
        found = []
        for function in run.own:
            step = place.into(self.program.scope(function), call)
            found += [
                self.behind(one, step, path)
                for one in returned(function)
                if not never_runs(self.program, one)
            ]
        found += [self._abroad(one, call, place, path) for one in run.foreign]
        return joined(found)

    def _abroad(
        self, found: Foreign, call: ast.Call, place: Place, path: Path
    ) -> Trail:
        """The same in a helper or a model of another file, where nothing that is written here
        helps.
        """
        inference, (program, function) = self.asked.inference, found
        inner = program.scope(function)
        given = (inference.of(one, place.scope) for one in call.args)
        is_model = inner.self_name is not None
        is_half = is_model or any(one.may_be_half for one in given)
        if self.whole or not inference.inside(call) or not is_half:
            return Trail()
        there = inference.abroad(program, inference.where(call))
        made = self.activations.construction(call, place.scope)
        search = Search(Asked(there, self.asked.float16), self.trait, made)
        start = Place(inner, place.depth - 1, (), place.complemented)
        file = resolved(program.module.path)
        weak = [
            one
            for value in returned(function)
            for one in search.behind(value, start, path).weak
        ]
        return Trail(tuple(one.of_file(file) for one in weak[:1]))
