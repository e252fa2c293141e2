"""The sigmoid behind a probability: it gets float32, wherever in sight it stands."""

from __future__ import annotations

import ast

from amp_migrate.model.decisions import never_runs
from amp_migrate.model.kinds import Kind
from amp_migrate.model.losses import Behind, body_of, callables
from amp_migrate.model.names import dotted_name
from amp_migrate.model.precision import says_float
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
)
from amp_migrate.model.tensors.parameters import all_arguments
from amp_migrate.model.tensors.spelling import spelled
from amp_migrate.planner.half_safety.bce_refusal import (
    place_of_definition,
    unsafe,
)
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.sequential import ends_in_sigmoid
from amp_migrate.planner.refusal import Refusal
from amp_migrate.torch_facts import layers, ops

_SIGMOIDS = {
    "torch.sigmoid",
    "torch.nn.functional.sigmoid",
    "torch.special.expit",
}


_SHAPES = frozenset(
    name
    for row in ops.shapes.ROWS
    if row.result == "same"
    for name in row.methods
) | {"clamp", "clip"}


class Sigmoids:
    """Follows the probabilities of one scope. Raises Refusal where one is out of sight."""

    def __init__(
        self, program: Program, scope: Scope, hazards: Hazards
    ) -> None:
        self.program = program
        self.scope = scope
        self.hazards = hazards

    def mend(
        self, expr: ast.expr, statement: ast.stmt, scope: Scope | None = None
    ) -> None:
        """Find the sigmoid behind `expr`, in a statement of `scope`, and give it float32."""
        self._trace_in(expr, scope or self.scope, statement, 8)

    def _trace_in(
        self, expr: ast.expr, scope: Scope, at: ast.stmt | None, depth: int
    ) -> None:
        expr, picked = unshaped(expr), _picked(expr)
        if says_float(expr) and depth < 8:
            return
        if depth == 0:
            raise self._refuse(expr, "the sigmoid is out of sight")
        if isinstance(expr, ast.Name):
            for given, where in self._given(expr, scope):
                at = self.program.module.statement_of(given)
                self._trace_in(given, where, at, depth - 1)
            for value, index in self._definitions(expr, scope, at):
                place = picked if index is None else index
                self._trace_value(value, place, scope, depth - 1)
        else:
            self._trace_value(expr, picked, scope, depth - 1)

    def _given(
        self, name: ast.Name, scope: Scope
    ) -> list[tuple[ast.expr, Scope]]:
        """What the callers pass for a parameter of a helper; nothing where they are not known."""
        entry, function = self.program.reaching.entry, scope.node
        if not isinstance(function, FUNCTIONS) or not entry.is_followed(
            function
        ):
            return []
        return [
            one
            for binding in self.program.reaching.at(name, name.id).bindings
            if binding.how == "parameter"
            for one in all_arguments(self.program, binding)
        ]

    def _definitions(
        self, name: ast.Name, scope: Scope, at: ast.stmt | None
    ) -> list[tuple[ast.expr, int | None]]:
        home = scope.lookup(name.id)
        if home is not scope:
            raise self._refuse(name, "its input is made in another function")
        added = added_to(scope, name.id)
        if None in added:
            raise self._refuse(
                name, f"what is added to `{name.id}` is not followed"
            )
        bindings = self.program.reaching.at(name, name.id).bindings
        given = bool(self._given(name, scope))
        open_ = [b for b in bindings if not (given and b.how == "parameter")]
        values = [found for b in open_ if (found := value_of(b)) is not None]
        if not bindings or len(values) < len(open_):
            raise self._refuse(
                name, f"nothing shows where `{name.id}` gets its sigmoid"
            )
        held = [one for one in values if not (added and _is_empty(one[0]))]
        plain = [value for value, index in held if index is None]
        if len(plain) == len(held) and not added:
            held = [(one, None) for one in self._squashed(plain, scope)]
        return [*held, *((one, None) for one in added if one is not None)]

    def _trace_value(
        self, value: ast.expr, index: int | None, scope: Scope, depth: int
    ) -> None:
        value = unshaped(value)
        if (
            isinstance(value, (ast.Tuple, ast.List))
            and index is not None
            and 0 <= index < len(value.elts)
        ):
            return self._trace_in(value.elts[index], scope, None, depth)
        if isinstance(value, (ast.Tuple, ast.List)) and value.elts:
            for one in value.elts:
                self._trace_in(one, scope, None, depth)
            return None
        if isinstance(value, ast.ListComp):
            inner = self.program.module.scope_of(value.elt)
            return self._trace_in(value.elt, inner, None, depth)
        if isinstance(value, ast.Name):
            return self._trace_in(value, scope, None, depth)
        if not isinstance(value, ast.Call):
            raise self._refuse(value, "its input is no plain sigmoid")
        sigmoid = self._sigmoid_input(value, scope)
        if sigmoid is not None:
            return self.hazards.cast(sigmoid)
        if self._is_float32(value, scope):
            return None
        sequence = ends_in_sigmoid(self.program, value, scope)
        if sequence is not None:
            return self.hazards.split(value, sequence)
        for function in self._functions(value, scope):
            self._trace_function(function, index, depth)
        return None

    def _trace_function(
        self, function: Function, index: int | None, depth: int
    ) -> None:
        """What a model returns, where an option does not make it something else."""
        scope = self.program.scope(function)
        results = [
            one
            for one in returned(function)
            if not never_runs(self.program, one)
        ]
        for result in self._squashed(results, scope):
            self._trace_result(result, index, scope, depth)

    def _trace_result(
        self, result: ast.expr, index: int | None, scope: Scope, depth: int
    ) -> None:
        if isinstance(result, ast.Tuple) and index is not None:
            result = dict(enumerate(result.elts)).get(index, result)
        self._trace_in(
            result, scope, self.program.module.statement_of(result), depth
        )

    def _sigmoid_input(self, call: ast.Call, scope: Scope) -> ast.expr | None:
        if self.program.canonical(call.func) in _SIGMOIDS:
            return call.args[0] if call.args else None
        if self.program.values.of(call.func, scope).name == "torch.nn.Sigmoid":
            return call.args[0] if call.args else None
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in ("sigmoid", "sigmoid_")
            and not call.args
        ):
            return call.func.value
        return None

    def _squashed(self, values: list[ast.expr], scope: Scope) -> list[ast.expr]:
        """Of what one name or result may be, all but the plain outputs of layers: these are any
        numbers, which the loss would not take; all where nothing else is left.
        """
        return [
            one for one in values if not self._is_unbounded(one, scope)
        ] or values

    def _is_unbounded(self, value: ast.expr, scope: Scope) -> bool:
        """A layer of weighted sums."""
        if not isinstance(value, ast.Call):
            return False
        row = layers.layer(self.program.values.of(value.func, scope).name)
        op = row.op if row is not None and row.role == "layer" else None
        return op is not None and op.policy == "lower" and op.bounds is None

    def _is_float32(self, call: ast.Call, scope: Scope) -> bool:
        """A softmax, which autocast runs in float32."""
        found = spelled(self.hazards.asked.inference, call, scope)
        row = layers.layer(self.program.values.of(call.func, scope).name)
        op = (
            found.op
            if found is not None
            else row.op
            if row is not None
            else None
        )
        return op is not None and op.policy == "fp32"

    def _functions(self, call: ast.Call, scope: Scope) -> list[Function]:
        found = self._models(call, scope)
        function = self.program.values.callee(call, scope)
        if function is not None and not found:
            return [function]
        value = self.program.values.of(call.func, scope)
        forward = (
            self.program.graph.method(value.cls, "forward")
            if value.cls is not None
            else None
        )
        if found:
            return found
        if forward is None and value.foreign is not None:
            raise self._elsewhere(call, value.foreign)
        if forward is None:
            where = (
                "in an nn.Sequential"
                if value.kind is Kind.MODEL
                and value.name == "torch.nn.Sequential"
                else "out of sight"
            )
            why = f"the sigmoid is {where}"
            raise self._refuse(call, why, above=value.kind is Kind.UNKNOWN)
        return [forward]

    def _models(self, call: ast.Call, scope: Scope) -> list[Function]:
        """`forward` of every class that may be behind `model(x)` or `model.forward(x)`. Raises
        Refusal where one of several is out of sight.
        """
        behind = callables(self.program, call, scope)
        found: list[Function] = []
        for one in behind:
            body = body_of(one)
            if body is not None and one[0] is not self.program:
                raise self._elsewhere(call, one)
            if isinstance(body, FUNCTIONS):
                found.append(body)
        for program, node in behind if found else ():
            if isinstance(node, ast.expr) and not _is_wrapper(
                program.canonical(node) or ""
            ):
                raise self._refuse(
                    call,
                    f"the sigmoid of `{ast.unparse(node)}` is out of sight",
                )
        return list(dict.fromkeys(found))

    def _elsewhere(self, call: ast.Call, behind: Behind) -> Refusal:
        where = place_of_definition(behind)
        why = f"the sigmoid is in {where}, out of reach"
        return self._refuse(call, why, behind)

    def _refuse(
        self,
        node: ast.AST,
        why: str,
        behind: Behind | None = None,
        *,
        above: bool = False,
    ) -> Refusal:
        return unsafe(
            self.program, self.scope, node, why, behind=behind, above=above
        )


def value_of(binding: Binding) -> tuple[ast.expr, int | None] | None:
    """What an assignment gives a name, or what a loop goes through."""
    value, index = binding.value, binding.index
    if value is None or binding.how not in ("assign", "for"):
        return None
    if binding.how == "assign" or index is None:
        return value, index
    called = dotted_name(value.func) if isinstance(value, ast.Call) else None
    given = value.args if isinstance(value, ast.Call) else []
    if called == "enumerate" and index == 1 and given:
        return given[0], None
    if called == "zip" and index < len(given):
        return given[index], None
    return None


def added_to(scope: Scope, name: str) -> list[ast.expr | None]:
    """What a body appends to a list; None for what is added to it in other ways."""
    found: list[ast.expr | None] = []
    for call in scope.calls:
        func = call.func
        if isinstance(func, ast.Attribute) and dotted_name(func.value) == name:
            if func.attr == "append" and len(call.args) == 1:
                found.append(call.args[0])
            elif func.attr in ("append", "extend", "insert"):
                found.append(None)
    return found


def _is_empty(value: ast.expr) -> bool:
    return isinstance(value, ast.List) and not value.elts


def _is_wrapper(name: str) -> bool:
    """A function or class of torch that hands back, or runs, the model that it is given."""
    row = layers.layer(name)
    is_layer = row is not None and row.role != "wrapper"
    is_layer = is_layer or name == "torch.nn.Sequential"
    return name.startswith(("torch.", "copy.")) and not is_layer


def _picked(expr: ast.expr) -> int | None:
    """1 of `outputs[1]`."""
    place = expr.slice if isinstance(expr, ast.Subscript) else None
    if isinstance(place, ast.Constant) and isinstance(place.value, int):
        return place.value
    return None


def unshaped(expr: ast.expr) -> ast.expr:
    """The tensor behind `x.view(-1)`, `x[:, 0]`, `torch.squeeze(x)`."""
    while True:
        if (
            isinstance(expr, ast.Call)
            and isinstance(expr.func, ast.Attribute)
            and expr.func.attr in _SHAPES
        ):
            plain = isinstance(
                expr.func.value, ast.Name
            ) and expr.func.value.id in ("torch", "th")
            expr = expr.args[0] if plain and expr.args else expr.func.value
        elif isinstance(expr, ast.Subscript):
            expr = expr.value
        else:
            return expr
