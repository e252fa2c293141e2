"""Whether the receiver of an added `.float()` is a tensor: arrays, lists and tuples have none.

The planner casts what may be half; that is no proof that it is a tensor. Here two things are: what
gives the value (operators and layers of torch, and what is computed from them), and what is
demanded of it where it is used (`demands`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeAlias

from amp_migrate.model.forwards.losses import lambdas_behind
from amp_migrate.model.forwards.sequence_ends import ends
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope, returned
from amp_migrate.model.tensors.buffers import registered
from amp_migrate.model.tensors.fields import given_to_field
from amp_migrate.model.tensors.iteration import drawn_from, rows_of
from amp_migrate.model.tensors.parameters import spread_arguments
from amp_migrate.model.values.kinds import Kind
from amp_migrate.rewrite.proof.asserted import is_asked_for, is_there
from amp_migrate.rewrite.proof.demands import Demands, demands_of
from amp_migrate.rewrite.proof.filled_lists import given_to, given_to_list
from amp_migrate.rewrite.proof.layer_inputs import layers_before
from amp_migrate.rewrite.proof.live_callers import passed
from amp_migrate.rewrite.proof.module_outputs import is_output, takes_no_several
from amp_migrate.rewrite.proof.nested_targets import outer_places
from amp_migrate.rewrite.proof.plain_parts import is_text_or_list, slice_begin
from amp_migrate.rewrite.proof.tensor_methods import only_tensors_take, swaps
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.methods import ONLY_OF_TENSORS, TENSOR_ATTRIBUTES

_DEEP = 16
_BUDGET = 4_000
_SEVERAL = ("tuple", "values")
_MODULES = (Kind.MODEL, Kind.CRITERION)
_NO_SINGLE = ("number", "array", *_SEVERAL)
_Gives: TypeAlias = Callable[[ast.expr, Scope, int], bool]


class Receivers:
    """Answers `is_tensor` for the casts of one program."""

    def __init__(self, demands: Demands) -> None:
        self.demands = demands
        self.program = demands.program
        self._known: dict[ast.expr, bool] = {}
        self._assumed: list[ast.expr] = []
        self._steps = 0

    def is_tensor(self, cast: ast.Call, scope: Scope) -> bool:
        """Whether what `cast` is called on is a tensor, or the program would have failed."""
        assert isinstance(cast.func, ast.Attribute)
        value = cast.func.value
        if self.demands.demanded(cast, scope) or self.made(value, scope, _DEEP):
            return True
        if is_there(self.program, cast, scope):
            return True
        program = self.program
        return takes_no_several(program, cast) and is_output(
            program, value, scope
        )

    def made(self, expr: ast.expr, scope: Scope, deep: int) -> bool:
        """Whether what gives a value gives a tensor; a value that a loop makes of itself is what
        it began with.
        """
        if expr not in self._known:
            self._steps += 1
            if deep <= 0 or self._steps > _BUDGET:
                return False
            mark = len(self._assumed)
            self._assumed.append(expr)
            self._known[expr] = True
            if not self._gives(expr, scope, deep - 1):
                for one in self._assumed[
                    mark:
                ]:  # they may rest on what was assumed here
                    self._known.pop(one, None)
                del self._assumed[mark:]
                self._known[expr] = False
        return self._known[expr]

    def _gives(self, expr: ast.expr, scope: Scope, deep: int) -> bool:
        if isinstance(expr, ast.Call):
            return self._call(expr, scope, deep)
        if isinstance(expr, (ast.Name, ast.Attribute)):
            return self._named(expr, scope, deep)
        if isinstance(expr, ast.BinOp):
            sides = [
                one
                for one in (expr.left, expr.right)
                if not is_text_or_list(one)
            ]
            return len(sides) == 2 and any(
                self.made(one, scope, deep) for one in sides
            )
        if isinstance(expr, ast.IfExp):
            return self.made(expr.body, scope, deep) and self.made(
                expr.orelse, scope, deep
            )
        if isinstance(expr, ast.Subscript):
            part = (
                expr.slice.value
                if isinstance(expr.slice, ast.Constant)
                else None
            )
            if self.made(expr.value, scope, deep):
                return True
            if isinstance(part, int) and self.part(
                expr.value, part, scope, deep
            ):
                return True
            return self._taken_out(expr, scope, deep)
        if isinstance(expr, ast.UnaryOp) and not isinstance(expr.op, ast.Not):
            return self.made(expr.operand, scope, deep)
        return isinstance(expr, ast.NamedExpr) and self.made(
            expr.value, scope, deep
        )

    def _call(self, call: ast.Call, scope: Scope, deep: int) -> bool:
        """An operator, a layer, or a function or model in sight that gives tensors only."""
        op = self.demands.operator(call)
        if op is not None:
            return op.result not in _NO_SINGLE
        if self._method(call, scope, deep):
            return True
        if self._taken_out(call, scope, deep):
            return True
        row = self.demands.layer(call, scope)
        if row is not None and row.op is not None:
            return row.op.result not in _SEVERAL
        sequence = self.demands.sequence(call, scope)
        if sequence is not None:
            last = ends(self.program, sequence)
            return all(self._ends_in_layer(one, deep) for one in last)
        results = list(self._results(call, scope))
        results += [
            (receivers_of(home), one.body, home.module.scopes[one])
            for home, one in lambdas_behind(self.program, call, scope)
            if not results
        ]
        return bool(results) and all(
            home.made(one, at, deep) for home, one, at in results
        )

    def _taken_out(self, expr: ast.expr, scope: Scope, deep: int) -> bool:
        """`kept[-1]`, `kept.pop()` of a list that is made empty and given nothing but tensors."""
        put = given_to_list(self.program, expr, scope)
        return bool(put) and all(self.made(*one, deep) for one in put)

    def _ends_in_layer(self, last: ast.expr | None, deep: int) -> bool:
        """`nn.Sequential(..., nn.Tanh())` gives what its last layer gives."""
        if last is None:
            return False
        value = self.program.values.of(last, self.program.module.scope_of(last))
        if value.cls is not None:
            forward = self.program.graph.method(value.cls, "forward")
            return forward is not None and all(
                self.made(one, self.program.scope(forward), deep)
                for one in returned(forward)
            )
        op = row.op if (row := layers.layer(value.name)) is not None else None
        return op is not None and op.result not in _SEVERAL

    def _method(self, call: ast.Call, scope: Scope, deep: int) -> bool:
        """`x.detach()`; `x.mean()` of a tensor."""
        func = call.func
        if (
            not isinstance(func, ast.Attribute)
            or self.program.canonical(func) is not None
        ):
            return False
        found = ops.method(func.attr)
        if found is None or found.op.result in _NO_SINGLE:
            return False
        if self.program.values.callee(call, scope) is not None:
            return False
        if func.attr in ONLY_OF_TENSORS or only_tensors_take(call, found.op):
            return True
        return swaps(call, scope) or self.made(func.value, scope, deep)

    def _results(
        self, call: ast.Call, scope: Scope
    ) -> Iterator[tuple[Receivers, ast.expr, Scope]]:
        """What the functions, or the `forward` of the model, that a call runs give back."""
        for demands, function in self.demands.run(call, scope):
            home = (
                self
                if demands is self.demands
                else receivers_of(demands.program)
            )
            inner = demands.program.scope(function)
            yield from ((home, one, inner) for one in returned(function))

    def part(
        self, whole: ast.expr, index: int, scope: Scope, deep: int
    ) -> bool:
        """One of several values: of a display, of an operator, of what a function returns, which
        may be what another one gives.
        """
        if deep <= 0:
            return False
        if isinstance(whole, (ast.Tuple, ast.List)):
            return index < len(whole.elts) and self.made(
                whole.elts[index], scope, deep
            )
        if not isinstance(whole, ast.Call):  # the rows of a tensor are tensors
            is_one = self.made(whole, scope, deep - 1)
            return is_one or self._part_of(whole, index, deep - 1)
        if (op := self._operator(whole, scope, deep)) is not None:
            is_one = op.result in (*_SEVERAL, "either")
            return is_one and index not in op.nested
        results = list(self._results(whole, scope))
        return bool(results) and all(
            home.part(one, index, inner, deep - 1)
            for home, one, inner in results
        )

    def _part_of(self, whole: ast.expr, index: int, deep: int) -> bool:
        """`out[1]` of `out = model(x)`, and of a slice of it: by all that gives the name."""
        self._steps += 1
        if isinstance(whole, ast.Subscript) and self._steps <= _BUDGET:
            first = slice_begin(whole.slice)
            scope = self.program.module.scope_of(whole)
            return first is not None and self.part(
                whole.value, first + index, scope, deep
            )
        dotted = dotted_name(whole)
        if dotted is None or self._steps > _BUDGET:
            return False
        bindings = self.program.reaching.at(whole, dotted).bindings
        return bool(bindings) and all(
            one.how == "assign"
            and one.index is None
            and one.value is not None
            and one.value in self.program.module.parents
            and self.part(
                one.value, index, self.program.module.scope_of(one.value), deep
            )
            for one in bindings
        )

    def _operator(
        self, call: ast.Call, scope: Scope, deep: int
    ) -> ops.Op | None:
        """The operator, or that of the layer, that a call runs."""
        op = self.demands.operator(call)
        op = op or self._operator_of_method(call, scope, deep)
        row = self.demands.layer(call, scope)
        return row.op if op is None and row is not None else op

    def _operator_of_method(
        self, call: ast.Call, scope: Scope, deep: int
    ) -> ops.Op | None:
        """`x.max(1)`, `x.chunk(2)` of a tensor."""
        func = call.func
        if (
            not isinstance(func, ast.Attribute)
            or self.program.canonical(func) is not None
        ):
            return None
        found = ops.method(func.attr)
        if found is None or self.program.values.callee(call, scope) is not None:
            return None
        is_tensor = func.attr in ONLY_OF_TENSORS or self.made(
            func.value, scope, deep
        )
        return found.op if is_tensor else None

    def _named(
        self, expr: ast.Name | ast.Attribute, scope: Scope, deep: int
    ) -> bool:
        """By another use of the same value, else by all that gives it."""
        dotted = dotted_name(expr)
        reach = (
            self.program.reaching.at(expr, dotted)
            if dotted is not None
            else None
        )
        bindings = reach.bindings if reach is not None else ()
        if dotted is not None and self.demands.used(
            expr, dotted, bindings, scope, deep
        ):
            return True
        if bindings:
            is_there = is_asked_for(self.program, expr, scope)
            gives = self._there if is_there else self.made
            return all(self._bound(one, deep, gives) for one in bindings)
        given = self._stored(expr, scope)
        if given:
            return all(self.made(one, home, deep) for one, home in given)
        if isinstance(expr, ast.Attribute) and expr.attr in TENSOR_ATTRIBUTES:
            # Of what a module gives, only a tensor has them.
            return self.made(expr.value, scope, deep) or is_output(
                self.program, expr.value, scope
            )
        return False

    def _stored(
        self, expr: ast.Name | ast.Attribute, scope: Scope
    ) -> list[tuple[ast.expr, Scope]]:
        """What a field of an object, or a buffer of the class, is given."""
        if not isinstance(expr, ast.Attribute):
            return []
        given = given_to_field(self.program, expr, scope)
        kept = registered(self.program, expr, scope)
        return given or ([kept] if kept is not None else [])

    def _there(self, expr: ast.expr, scope: Scope, deep: int) -> bool:
        """The same, None aside."""
        if isinstance(expr, ast.Constant) and expr.value is None:
            return True
        held = (
            self.program.reaching.at(expr, expr.id).bindings
            if isinstance(expr, ast.Name) and deep > 0
            else ()
        )
        if any(one.how != "parameter" for one in held) or not held:
            return self.made(expr, scope, deep)
        return all(self._bound(one, deep - 1, self._there) for one in held)

    def _bound(self, binding: Binding, deep: int, gives: _Gives) -> bool:
        """Whether one binding gives a tensor; a parameter by what the callers pass."""
        value, module = binding.value, self.program.module
        if binding.how == "parameter":
            given = passed(self.program, binding)
            spread = spread_arguments(self.program, binding)
            before = layers_before(self.program, binding)
            if before and not given and not spread:
                return all(self._ends_in_layer(one, deep) for one in before)
            return bool(given or spread) and all(
                (
                    *(gives(one, where, deep) for one, where in given),
                    *(self.part(*one, deep) for one in spread),
                )
            )
        if binding.statement not in module.parents:
            return False
        if value is None:
            return self._bound_within(binding, deep)
        scope = module.scope_of(value)
        drawn = drawn_from(self.program, binding)
        if drawn is not None or binding.how == "for":
            rows = rows_of(self.program, drawn or value, binding.index)
            return rows is not None and self._rows(rows, deep)
        if binding.index is not None and binding.how == "assign":
            return self.part(value, binding.index, scope, deep)
        # The rows of a tensor are tensors, and what is added to one stays one.
        is_whole = binding.how in ("assign", "walrus", "augmented")
        return is_whole and self.made(value, scope, deep)

    def _rows(self, rows: ast.expr, deep: int) -> bool:
        """The rows of a tensor, and what a list was filled with."""
        scope = self.program.module.scope_of(rows)
        put = given_to(self.program, rows, scope)
        if put:
            return all(self.made(one, home, deep) for one, home in put)
        return self.made(rows, scope, deep)

    def _bound_within(self, binding: Binding, deep: int) -> bool:
        """`_, (hidden, cell) = self.lstm(x)`: parts of what an operator gives as one part."""
        whole, places = outer_places(binding)
        if whole is None:
            return False
        scope = self.program.module.scope_of(whole)
        op = self._operator(whole, scope, deep)
        return op is not None and places <= set(op.nested)


def receivers_of(program: Program) -> Receivers:
    """Those of a program, made once."""
    return program.remembered(Receivers, lambda: Receivers(demands_of(program)))
