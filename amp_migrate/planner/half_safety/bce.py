"""Binary cross-entropy on probabilities: the sigmoid gets float32 and the loss stands after the
region, or the loop is refused.

CUDA autocast bans the loss, and a half sigmoid has saturated before any cast (amp-semantics section
2, amp-pitfalls 3.4).
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TypeGuard

from amp_migrate.model.calls import argument
from amp_migrate.model.events import EventKind
from amp_migrate.model.kinds import Kind
from amp_migrate.model.losses import Behind, bce_behind, body_of, callables
from amp_migrate.model.precision import says_float
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
    shallow,
)
from amp_migrate.model.tensors.calls import spelled
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.sequential import ends_in_sigmoid
from amp_migrate.planner.loss_flow import flow_of, header
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions import receivers
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


class ProbabilityLosses:
    """The statements of one scope that compute BCE on probabilities, and the casts they need."""

    def __init__(
        self,
        program: Program,
        scope: Scope,
        backwards: list[ast.Call],
        hazards: Hazards,
    ) -> None:
        self.program = program
        self.scope = scope
        self.backwards = backwards
        self.hazards = hazards
        self.flow = flow_of(scope, program)

    def late(self) -> frozenset[ast.stmt]:
        """Loss statements that must stay in float32, outside of autocast; their sigmoids are
        mended.
        """
        late: dict[ast.stmt, None] = {}
        if not any(
            self._effect(step.statement) & EventKind.BCE
            for step in self.flow.steps
        ):
            return frozenset()
        for call in self.backwards:
            at = self.program.module.statement_of(call)
            changed: set[str] = set()
            for expr in receivers(call, self.program):
                if (
                    self.program.effects.of_statement(expr, self.scope)
                    & EventKind.BCE
                ):
                    raise self._refuse(
                        call,
                        (
                            "the loss is computed inside backward's receiver: give it, and the "
                            "output, a name first"
                        ),
                    )
                for step in self.flow.slice(expr, at):
                    direct = self._effect(step.statement) & EventKind.BCE
                    if direct or step.uses & changed:
                        if self._runs_model(step.statement):
                            why = self._in_one(step.statement)
                            raise self._refuse(step.statement, why)
                        late[step.statement] = None
                        changed |= step.defines
                    if direct:
                        self._mend(step.statement)
        return frozenset(late)

    def _effect(self, statement: ast.stmt) -> EventKind:
        effect = EventKind.NONE
        for root in header(statement):
            effect |= self.program.effects.of_statement(root, self.scope)
        return effect

    def _runs_model(self, statement: ast.stmt) -> bool:
        """Whether a statement runs a model; a module that only computes the loss is none."""
        return any(
            self.program.effects.of_node(node, self.scope) & EventKind.FORWARD
            and not self._is_loss(node)
            for root in header(statement)
            for node in shallow(root)
        )

    def _in_one(self, statement: ast.stmt) -> str:
        """Why the loss cannot be set apart from the model in a statement that has both."""
        nodes = [node for root in header(statement) for node in shallow(root)]
        for call in (
            node for node in nodes if self._computes_bce(node, self.scope)
        ):
            if (
                self.program.effects.of_node(call, self.scope)
                & EventKind.FORWARD
            ):
                behind = bce_behind(self.program, call, self.scope)
                places = ", ".join(_place(_loss_in(one)) for one in behind)
                where = f" ({places})" if places else ""
                return (
                    f"`{ast.unparse(call.func)}` runs the model and computes the loss{where}: "
                    "compute the loss there with autocast switched off, from a float32 sigmoid"
                )
        return "the model runs inside the statement of the loss: give its output a name first"

    def _is_loss(self, node: ast.AST) -> bool:
        if not self._computes_bce(node, self.scope):
            return False
        bodies = self._bodies(node, self.scope)
        return all(
            not self.program.effects.of_statement(
                part, self.program.module.scopes[body]
            )
            & EventKind.FORWARD
            for body in bodies
            for part in (
                [body.body] if isinstance(body, ast.Lambda) else body.body
            )
        )

    def _refuse(self, node: ast.AST, why: str) -> Refusal:
        file = self.program.module.scope_of(node).module
        place = (
            f" ({Path(file.path).name})"
            if file is not self.scope.module
            else ""
        )
        return Refusal(
            "bce-on-probabilities",
            node,
            f"BCELoss on probabilities is unsafe in half precision{place}; {why}",
        )

    def _mend(self, statement: ast.stmt) -> None:
        for root in header(statement):
            for node in shallow(root):
                if self._computes_bce(node, self.scope):
                    for probability in self._probabilities(node, self.scope):
                        self._trace(probability, statement)
                    self._cast_others(node)

    def _computes_bce(self, node: ast.AST, scope: Scope) -> TypeGuard[ast.Call]:
        """Whether a node is a call that computes the loss, itself or in what it runs."""
        return isinstance(node, ast.Call) and bool(
            self.program.effects.of_node(node, scope) & EventKind.BCE
        )

    def _probabilities(self, call: ast.Call, scope: Scope) -> list[ast.expr]:
        """The arguments of `call` that end up as the input of the loss, through helpers
        in sight.
        """
        found = []
        if self.program.effects.is_bce(call, scope):
            found += call.args[:1] or [
                k.value for k in call.keywords if k.arg == "input"
            ]
        for body in self._bodies(call, scope):
            inner = self.program.module.scopes[body]
            for nested in inner.calls:
                if self._computes_bce(nested, inner):
                    for expr in self._probabilities(nested, inner):
                        found.append(self._argument_of(expr, call, inner))
        if not found:
            raise self._refuse(call, "it is computed in code out of sight")
        return found

    def _bodies(
        self, call: ast.Call, scope: Scope
    ) -> list[Function | ast.Lambda]:
        """The definitions in sight that compute the loss for `call`. Raises Refusal for one of
        another program.
        """
        function = self.program.values.callee(call, scope) or self._call_method(
            call, scope
        )
        found: list[Function | ast.Lambda | None] = [function]
        for behind in bce_behind(self.program, call, scope):
            body = body_of(behind)
            if body is not None and behind[0] is not self.program:
                raise self._refuse(
                    call, f"it is computed in {_place(behind)}, out of reach"
                )
            found.append(body)
        return [body for body in dict.fromkeys(found) if body is not None]

    def _call_method(self, call: ast.Call, scope: Scope) -> Function | None:
        cls = self.program.values.of(call.func, scope).cls
        return (
            (
                self.program.graph.method(cls, "forward")
                or self.program.graph.method(cls, "__call__")
            )
            if cls is not None
            else None
        )

    def _argument_of(
        self, expr: ast.expr, call: ast.Call, inner: Scope
    ) -> ast.expr:
        """What the caller passed for the parameter that `expr` is in the body of `inner`."""
        expr = _unshaped(expr)
        bound = inner.self_name is not None
        is_given = isinstance(expr, ast.Name) and all(
            one.how == "parameter" or _is_reshaped(one, expr.id)
            for one in inner.bindings.get(expr.id, ())
        )
        given = (
            argument(call, inner, expr.id, bound)
            if is_given and isinstance(expr, ast.Name)
            else None
        )
        if given is None:
            raise self._refuse(
                call, "its input cannot be followed to a sigmoid"
            )
        return given

    def _trace(self, expr: ast.expr, statement: ast.stmt) -> None:
        """Find the sigmoid behind `expr` and give it float32."""
        self._trace_in(expr, self.scope, statement, 8)

    def _trace_in(
        self, expr: ast.expr, scope: Scope, at: ast.stmt | None, depth: int
    ) -> None:
        expr = _unshaped(expr)
        if says_float(expr) and depth < 8:
            return
        if depth == 0:
            raise self._refuse(expr, "the sigmoid is out of sight")
        if isinstance(expr, ast.Name):
            for value, index in self._definitions(expr, scope, at):
                self._trace_value(value, index, scope, depth - 1)
        else:
            self._trace_value(expr, None, scope, depth - 1)

    def _definitions(
        self, name: ast.Name, scope: Scope, at: ast.stmt | None
    ) -> list[tuple[ast.expr, int | None]]:
        home = scope.lookup(name.id)
        if home is not scope:
            raise self._refuse(name, "its input is made in another function")
        bindings = self.program.reaching.at(name, name.id).bindings
        values = [
            (b.value, b.index)
            for b in bindings
            if b.value is not None and b.how == "assign"
        ]
        if not values or len(values) < len(bindings):
            raise self._refuse(
                name, f"nothing shows where `{name.id}` gets its sigmoid"
            )
        return values

    def _trace_value(
        self, value: ast.expr, index: int | None, scope: Scope, depth: int
    ) -> None:
        value = _unshaped(value)
        if (
            isinstance(value, (ast.Tuple, ast.List))
            and index is not None
            and index < len(value.elts)
        ):
            return self._trace_in(value.elts[index], scope, None, depth)
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
            for result in returned(function):
                self._trace_result(
                    result, index, self.program.scope(function), depth
                )
        return None

    def _trace_result(
        self, result: ast.expr, index: int | None, scope: Scope, depth: int
    ) -> None:
        if isinstance(result, ast.Tuple) and index is not None:
            result = result.elts[index]
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
        if forward is None:
            where = (
                "in an nn.Sequential"
                if value.kind is Kind.MODEL
                and value.name == "torch.nn.Sequential"
                else "out of sight"
            )
            raise self._refuse(call, f"the sigmoid is {where}")
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
                raise self._refuse(
                    call, f"the sigmoid is in {_place(one)}, out of reach"
                )
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

    def _cast_others(self, call: ast.Call) -> None:
        """Other outputs of the model that the late statement computes with (mu, logvar) leave the
        region as float.
        """
        probabilities = {id(p) for p in self._probabilities(call, self.scope)}
        for given in [*call.args, *(k.value for k in call.keywords)]:
            if (
                id(given) not in probabilities
                and isinstance(given, ast.Name)
                and self._is_output(given)
            ):
                self.hazards.cast(given)

    def _is_output(self, name: ast.Name) -> bool:
        """Whether a name was last bound by a statement that runs a model."""
        bindings = [
            b
            for b in self.scope.bindings.get(name.id, [])
            if getattr(b.statement, "lineno", 0) < name.lineno
        ]
        value = bindings[-1].value if bindings else None
        return value is not None and bool(
            self.program.effects.of_statement(value, self.scope)
            & EventKind.FORWARD
        )


def _is_wrapper(name: str) -> bool:
    """A function or class of torch that hands back, or runs, the model that it is given."""
    is_layer = name == "torch.nn.Sequential" or layers.layer(name) is not None
    return name.startswith(("torch.", "copy.")) and not is_layer


def _loss_in(behind: Behind) -> Behind:
    """The call in a body that computes the loss; the body itself where none stands in it."""
    program, body = behind[0], body_of(behind)
    if not isinstance(body, FUNCTIONS):
        return behind
    scope = program.scope(body)
    computing = (
        one
        for one in scope.calls
        if program.effects.of_node(one, scope) & EventKind.BCE
    )
    return program, next(computing, behind[1])


def _place(behind: Behind) -> str:
    """Where a definition stands, of this program or of another."""
    program, node = behind
    file = program.module.file_of(node) or program.module
    return f"{Path(file.path).name}:{node.lineno}"


def _is_reshaped(binding: Binding, name: str) -> bool:
    """`p = p.view(-1)`"""
    inner = _unshaped(binding.value) if binding.value is not None else None
    return (
        binding.how == "assign"
        and isinstance(inner, ast.Name)
        and inner.id == name
    )


def _unshaped(expr: ast.expr) -> ast.expr:
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
