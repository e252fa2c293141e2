"""The sigmoid behind a probability: it gets float32, wherever in sight it stands.

A probability is followed back through whatever only moves, joins, masks or clamps it to where it
was squashed into its range: what half precision takes away there, no later cast brings back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.arguments import argument, default_of
from amp_migrate.model.decisions import never_runs
from amp_migrate.model.half_safety.held_activations import (
    Activations,
    saturates,
)
from amp_migrate.model.literals import number
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.sequence_calls import sequences
from amp_migrate.model.sequence_ends import ends
from amp_migrate.model.syntax import FUNCTIONS, Binding, Scope, returned
from amp_migrate.model.tensors.parameters import all_arguments
from amp_migrate.model.tensors.spelling import (
    given_to,
    operands,
    spelled,
)
from amp_migrate.planner.half_safety.bce_refusal import unsafe
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.origins_of_probabilities import (
    Origin,
    Place,
)
from amp_migrate.planner.half_safety.probability_values import (
    Path,
    added_to,
    elements,
    entries,
    is_empty,
    stepped,
    value_of,
)
from amp_migrate.planner.half_safety.run_for_probabilities import Runs
from amp_migrate.planner.refusal import Refusal
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.ops import Op

_DEEP = 24
_COPIES = ("list", "tuple", "reversed")
_CASTS = ("cast", "float32", "double", "half")
_ANEW = ("default", "data", "like", "int", "bool", "number", "array")


class Sigmoids:
    """Follows the probabilities of one scope. Raises Refusal where one is out of sight."""

    def __init__(
        self, program: Program, scope: Scope, hazards: Hazards
    ) -> None:
        self.program = program
        self.scope = scope
        self.hazards = hazards
        self.runs = Runs(program, scope, hazards)
        self.met: set[ast.expr] = set()
        """The expressions that were followed."""
        self._seen: set[tuple[ast.expr, Path, int]] = set()

    def mend(self, expr: ast.expr, place: Place) -> Origin:
        """Find the sigmoid behind `expr` and give it float32; what it may be else is told."""
        self._seen.clear()
        origin = self._trace(expr, place, ())
        if not origin.is_probability:
            why = "its input is no plain sigmoid"
            raise unsafe(self.program, self.scope, expr, why)
        return origin

    def start(self, scope: Scope | None = None) -> Place:
        """Where to begin."""
        return Place(scope or self.scope, _DEEP)

    # -- expressions

    def _trace(self, expr: ast.expr, place: Place, path: Path) -> Origin:
        key = (expr, path, len(place.frames))
        if key in self._seen:
            return Origin.NONE
        self._seen.add(key)
        self.met.add(expr)
        if place.depth == 0:
            raise self._refuse(expr, "the sigmoid is out of sight")
        if isinstance(expr, (ast.Name, ast.Attribute)):
            return self._named(expr, place, path)
        if isinstance(expr, ast.Call):
            return self._call(expr, place, path)
        if isinstance(expr, ast.Subscript):
            step = place.at(place.scope)
            return self._trace(expr.value, step, (*stepped(expr), *path))
        if isinstance(expr, ast.BinOp):
            return self._operation(expr, place)
        return self._form(expr, place, path)

    def _form(self, expr: ast.expr, place: Place, path: Path) -> Origin:
        step = place.at(place.scope)
        if isinstance(expr, (ast.Tuple, ast.List)):
            return self._all(elements(expr, path), step)
        if isinstance(expr, ast.Dict):
            return self._all(entries(expr, path), step)
        if isinstance(expr, (ast.ListComp, ast.GeneratorExp)):
            inner = self.program.module.scope_of(expr.elt)
            return self._trace(expr.elt, place.at(inner), path[1:])
        if isinstance(expr, ast.IfExp):
            return self._any([(expr.body, path), (expr.orelse, path)], step)
        if isinstance(expr, ast.UnaryOp):
            return self._trace(expr.operand, step, path)
        if isinstance(expr, (ast.NamedExpr, ast.Starred)):
            return self._trace(expr.value, step, path)
        if number(expr, place.scope) is not None:
            return Origin.GIVEN
        raise self._refuse(expr, "it is no plain sigmoid")

    def _any(
        self, values: Iterable[tuple[ast.expr, Path]], place: Place
    ) -> Origin:
        """One of several values, or all of them together."""
        origin = Origin.NONE
        for one, path in values:
            origin |= self._trace(one, place, path)
        return origin

    def _all(
        self, values: Iterable[tuple[ast.expr, Path]], place: Place
    ) -> Origin:
        """Values each of which is asked for."""
        found = [self._trace(one, place, path) for one, path in values]
        if Origin.RAW in found:
            return Origin.RAW
        return self._joined(found)

    def _joined(self, found: Iterable[Origin]) -> Origin:
        origin = Origin.NONE
        for one in found:
            origin |= one
        return origin

    def _operation(self, expr: ast.BinOp, place: Place) -> Origin:
        if isinstance(expr.op, ast.MatMult):
            return Origin.RAW
        step = place.at(place.scope)
        sides = [
            one
            for one in (expr.left, expr.right)
            if number(one, place.scope) is None
        ]
        return self._any(((one, ()) for one in sides), step)

    # -- names

    def _named(
        self, expr: ast.Name | ast.Attribute, place: Place, path: Path
    ) -> Origin:
        dotted = dotted_name(expr)
        reach = (
            self.program.reaching.at(expr, dotted)
            if dotted is not None
            else None
        )
        if reach is None or not reach.bindings:
            return self._unbound(expr, place, path)
        found = [self._bound(one, expr, place, path) for one in reach.bindings]
        return self._joined([*found, *self._added(expr, place, path)])

    def _unbound(
        self, expr: ast.Name | ast.Attribute, place: Place, path: Path
    ) -> Origin:
        """`x.data`; what nothing in sight sets."""
        if isinstance(expr, ast.Attribute) and ops.method(expr.attr):
            return self._trace(expr.value, place.at(place.scope), path)
        return self._left(expr, place)

    def _left(self, expr: ast.expr, place: Place) -> Origin:
        """What cannot be followed any further."""
        if not self.hazards.asked.fact(expr, place.scope).may_be_half:
            return Origin.GIVEN
        raise self._refuse(
            expr, f"nothing shows where `{ast.unparse(expr)}` gets its sigmoid"
        )

    def _bound(
        self, binding: Binding, expr: ast.expr, place: Place, path: Path
    ) -> Origin:
        """What one binding gives a name."""
        if binding.how == "parameter":
            return self._parameter(binding, expr, place, path)
        found = value_of(binding)
        if found is None or found[0] not in self.program.module.parents:
            return self._left(expr, place)
        value, step = found
        if is_empty(value):
            return Origin.NONE
        home = self.program.module.scope_of(value)
        origin = self._trace(value, place.at(home), (*step, *path))
        if binding.how == "augmented":
            origin |= self._before(binding, expr, place, path)
        return origin

    def _before(
        self, binding: Binding, expr: ast.expr, place: Place, path: Path
    ) -> Origin:
        """What a name held before `p *= mask`."""
        dotted, statement = dotted_name(expr), binding.statement
        if dotted is None or not isinstance(statement, ast.stmt):
            return Origin.NONE
        reach = self.program.reaching.at(statement, dotted)
        step = place.at(place.scope)
        return self._joined(
            self._bound(one, expr, step, path)
            for one in reach.bindings
            if one is not binding
        )

    def _added(
        self, expr: ast.expr, place: Place, path: Path
    ) -> Iterable[Origin]:
        """What is appended to a list of this name."""
        name = dotted_name(expr) or ""
        for one, step in added_to(place.scope, name):
            if one is None:
                raise self._refuse(
                    expr, f"what is added to `{name}` is not followed"
                )
            rest = (*step, *path[1:])
            yield self._trace(one, place.at(place.scope), rest)
        yield from self._stored(name, place, path)

    def _stored(self, name: str, place: Place, path: Path) -> Iterable[Origin]:
        """What `maps["out"] = p` puts under the key that is asked for."""
        for one in place.scope.stored.get(name, ()):
            key = one.key.value if isinstance(one.key, ast.Constant) else None
            if isinstance(key, str) and (not path or path[0] == key):
                yield self._trace(one.value, place.at(place.scope), path[1:])

    def _parameter(
        self, binding: Binding, expr: ast.expr, place: Place, path: Path
    ) -> Origin:
        """What the call gives by which the body was reached, or all callers in sight."""
        name, frame = dotted_name(expr) or "", place.frame()
        if frame is not None:
            bound = frame.inner.takes_receiver
            given = argument(frame.call, frame.inner, name, bound)
            if given is not None:
                return self._trace(given, place.out_of(frame), path)
            default = self._default(frame.inner, name)
            if default is not None:
                return self._trace(default, place.at(place.scope), path)
            return self._left(expr, place)
        callers = self._given(binding, place.scope)
        if not callers:
            return self._left(expr, place)
        return self._joined(
            self._trace(one, place.at(where), path) for one, where in callers
        )

    def _default(self, scope: Scope, name: str) -> ast.expr | None:
        node = scope.node
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            return default_of(node, name)
        return None

    def _given(
        self, binding: Binding, scope: Scope
    ) -> list[tuple[ast.expr, Scope]]:
        """What the callers pass for a parameter of a helper; nothing where they are not known."""
        entry, function = self.program.reaching.entry, scope.node
        if not isinstance(function, FUNCTIONS) or not entry.is_followed(
            function
        ):
            return []
        return all_arguments(self.program, binding)

    # -- calls

    def _call(self, call: ast.Call, place: Place, path: Path) -> Origin:
        inference = self.hazards.asked.inference
        found = spelled(inference, call, place.scope)
        if found is not None:
            is_cast = found.op.result in _CASTS
            given = operands(found, call) or given_to(found, call)[:is_cast]
            return self._operator(found.op, call, given, place)
        if dotted_name(call.func) in _COPIES and len(call.args) == 1:
            return self._trace(call.args[0], place.at(place.scope), path)
        row = layers.layer(self.program.values.of(call.func, place.scope).name)
        if row is not None and row.role == "layer" and row.op is not None:
            return self._operator(row.op, call, call.args[:1], place)
        acts = Activations(inference)
        if call.args and acts.may_saturate(call.func, place.scope):
            return self._squash(call, call.args[0], place)
        run = sequences(self.program, call, place.scope)
        if run:
            return self._sequence(call, run, place)
        return self._results(call, place, path)

    def _operator(
        self, op: Op, call: ast.Call, given: list[ast.expr], place: Place
    ) -> Origin:
        """What an operator of torch makes of its operands."""
        if saturates(op) and given:
            return self._squash(call, given[0], place)
        if op.policy == "lower":
            return Origin.RAW
        is_anew = op.policy == "fp32" and op.bounds is not None
        if is_anew or op.result in _ANEW or not given:
            return Origin.GIVEN
        origin = self._any(((one, ()) for one in given), place.at(place.scope))
        if origin == Origin.RAW and self._is_clamped(op, call, place.scope):
            return self._squash(call, given[0], place)
        return origin

    def _is_clamped(self, op: Op, call: ast.Call, scope: Scope) -> bool:
        """`x.clamp(0, 1)`"""
        bounds = [*call.args[-2:], *(one.value for one in call.keywords)]
        sizes = [number(one, scope) for one in bounds]
        inside = [one for one in sizes if one is not None and 0 <= one <= 1]
        return op.name == "clamp" and len(inside) == 2

    def _squash(
        self, call: ast.Call, operand: ast.expr, place: Place
    ) -> Origin:
        """A sigmoid gets float32."""
        asked = self.hazards.asked
        inside = asked.inference.inside(call)
        if not inside or asked.fact(operand, place.scope).may_be_half:
            self.hazards.cast(operand)
        return Origin.SQUASHED

    def _sequence(
        self, call: ast.Call, run: list[tuple[str, ast.Call]], place: Place
    ) -> Origin:
        """The last layer of an `nn.Sequential` gets float32."""
        found = [
            self._end(call, last)
            for _, made in run
            for last in ends(self.program, made)
        ]
        if Origin.SQUASHED in found:
            is_float = Origin.RAW not in found
            self.hazards.split(call, run[0][0], is_float=is_float)
        return self._joined(found)

    def _end(self, call: ast.Call, last: ast.expr | None) -> Origin:
        """What the last layer makes of its input."""
        acts = Activations(self.hazards.asked.inference)
        if last is not None:
            home = self.program.module.scope_of(last)
            func = last.func if isinstance(last, ast.Call) else last
            row = layers.layer(self.program.canonical(func))
            op = row.op if row is not None else None
            if acts.may_saturate(last, home):
                return Origin.SQUASHED
            if op is not None and op.policy == "lower":
                return Origin.RAW
            if op is not None and op.policy == "fp32":
                return Origin.GIVEN
            if op is None and isinstance(last, ast.Call) and last.args:
                return self._end(call, last.args[0])  # `norm(nn.Conv2d())`
        raise self._refuse(call, "the sigmoid is in an nn.Sequential")

    def _results(self, call: ast.Call, place: Place, path: Path) -> Origin:
        """What functions and models in sight give back, where no option makes it something
        else.
        """
        origins = []
        for function in self.runs.of(call, place.scope):
            inner = self.program.scope(function)
            step = place.into(inner, call)
            origins += [
                self._trace(one, step, path)
                for one in returned(function)
                if not never_runs(self.program, one)
            ]
        return self._joined(origins)

    def _refuse(self, node: ast.AST, why: str) -> Refusal:
        return unsafe(self.program, self.scope, node, why, is_loss=False)
