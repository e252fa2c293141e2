"""Binary cross-entropy on probabilities: the sigmoid gets float32 and the loss stands after the region, or the loop is refused.

CUDA autocast bans the loss, and a half sigmoid has saturated before any cast (amp-semantics section 2, amp-pitfalls 3.4).
"""

from __future__ import annotations

import ast

from amp_migrate.migrate.flow import flow_of, header
from amp_migrate.migrate.hazards import Hazards, says_float
from amp_migrate.migrate.refusal import Refusal
from amp_migrate.migrate.region import receivers
from amp_migrate.model.calls import argument
from amp_migrate.model.effects import Effect
from amp_migrate.model.kinds import Kind
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Function, Scope, shallow
from amp_migrate.model.values import returned

_SIGMOIDS = {"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit"}
_SHAPES = {
    "view",
    "reshape",
    "squeeze",
    "unsqueeze",
    "flatten",
    "transpose",
    "permute",
    "contiguous",
    "expand",
    "gather",
    "narrow",
    "t",
}


class ProbabilityLosses:
    """The statements of one scope that compute BCE on probabilities, and the casts they need."""

    def __init__(self, program: Program, scope: Scope, backwards: list[ast.Call], hazards: Hazards) -> None:
        self.program = program
        self.scope = scope
        self.backwards = backwards
        self.hazards = hazards
        self.flow = flow_of(scope, program)

    def late(self) -> frozenset[ast.stmt]:
        """Loss statements that must stay in float32, outside of autocast; their sigmoids are mended."""
        late: dict[ast.stmt, None] = {}
        if not any(self._effect(step.statement) & Effect.BCE for step in self.flow.steps):
            return frozenset()
        for call in self.backwards:
            at = self.program.module.statement_of(call)
            changed: set[str] = set()
            for expr in receivers(call, self.program):
                if self.program.effects.of_statement(expr, self.scope) & Effect.BCE:
                    raise self._refuse(
                        call, "the loss is computed inside backward's receiver: give it, and the output, a name first"
                    )
                for step in self.flow.slice(expr, at):
                    direct = self._effect(step.statement) & Effect.BCE
                    if direct or step.uses & changed:
                        if self._effect(step.statement) & Effect.FORWARD:
                            raise self._refuse(
                                step.statement,
                                "the model runs inside the statement of the loss, where no sigmoid is in reach",
                            )
                        late[step.statement] = None
                        changed |= step.defines
                    if direct:
                        self._mend(step.statement)
        return frozenset(late)

    def _effect(self, statement: ast.stmt) -> Effect:
        effect = Effect.NONE
        for root in header(statement):
            effect |= self.program.effects.of_statement(root, self.scope)
        return effect

    def _refuse(self, node: ast.AST, why: str) -> Refusal:
        return Refusal("bce-on-probabilities", node, f"BCELoss on probabilities is unsafe in half precision; {why}")

    def _mend(self, statement: ast.stmt) -> None:
        for root in header(statement):
            for node in shallow(root):
                if isinstance(node, ast.Call) and self.program.effects.of_statement(node, self.scope) & Effect.BCE:
                    for probability in self._probabilities(node, self.scope):
                        self._trace(probability, statement)
                    self._cast_others(node)
                    return

    def _probabilities(self, call: ast.Call, scope: Scope) -> list[ast.expr]:
        """The arguments of `call` that end up as the input of the loss, through helpers in sight."""
        if self.program.effects.is_bce(call, scope):
            given = call.args[:1] or [k.value for k in call.keywords if k.arg == "input"]
            return list(given)
        function = self.program.values.callee(call, scope) or self._call_method(call, scope)
        if function is None:
            raise self._refuse(call, "it is computed in code out of sight")
        inner = self.program.scope(function)
        found = []
        for nested in inner.calls:
            if self.program.effects.of_statement(nested, inner) & Effect.BCE:
                for expr in self._probabilities(nested, inner):
                    found.append(self._argument_of(expr, call, function))
        return found

    def _call_method(self, call: ast.Call, scope: Scope) -> Function | None:
        cls = self.program.values.of(call.func, scope).cls
        return (
            (self.program.graph.method(cls, "forward") or self.program.graph.method(cls, "__call__"))
            if cls is not None
            else None
        )

    def _argument_of(self, expr: ast.expr, call: ast.Call, function: Function) -> ast.expr:
        """What the caller passed for the parameter that `expr` is in `function`."""
        expr = _unshaped(expr)
        inner = self.program.scope(function)
        bound = inner.self_name is not None
        given = argument(call, inner, expr.id, bound) if isinstance(expr, ast.Name) else None
        if given is None:
            raise self._refuse(call, "its input cannot be followed to a sigmoid")
        return given

    def _trace(self, expr: ast.expr, statement: ast.stmt) -> None:
        """Find the sigmoid behind `expr` and give it float32."""
        self._trace_in(expr, self.scope, statement, 8)

    def _trace_in(self, expr: ast.expr, scope: Scope, at: ast.stmt | None, depth: int) -> None:
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

    def _definitions(self, name: ast.Name, scope: Scope, at: ast.stmt | None) -> list[tuple[ast.expr, int | None]]:
        home = scope.lookup(name.id)
        if home is not scope:
            raise self._refuse(name, "its input is made in another function")
        before = at.lineno if at is not None else name.lineno + 1
        bindings = [b for b in scope.bindings[name.id] if getattr(b.statement, "lineno", 0) < before]
        latest = [b for b in bindings if b.value is not None and b.how == "assign"][-1:]
        if not latest or latest[0].value is None:
            raise self._refuse(name, f"nothing shows where `{name.id}` gets its sigmoid")
        return [(latest[0].value, latest[0].index)]

    def _trace_value(self, value: ast.expr, index: int | None, scope: Scope, depth: int) -> None:
        value = _unshaped(value)
        if isinstance(value, (ast.Tuple, ast.List)) and index is not None and index < len(value.elts):
            return self._trace_in(value.elts[index], scope, None, depth)
        if isinstance(value, ast.Name):
            return self._trace_in(value, scope, None, depth)
        if not isinstance(value, ast.Call):
            raise self._refuse(value, "its input is no plain sigmoid")
        sigmoid = self._sigmoid_input(value, scope)
        if sigmoid is not None:
            return self.hazards.cast(sigmoid)
        for function in self._functions(value, scope):
            for result in returned(function):
                self._trace_result(result, index, self.program.scope(function), depth)
        return None

    def _trace_result(self, result: ast.expr, index: int | None, scope: Scope, depth: int) -> None:
        if isinstance(result, ast.Tuple) and index is not None:
            result = result.elts[index]
        self._trace_in(result, scope, self.program.module.statement_of(result), depth)

    def _sigmoid_input(self, call: ast.Call, scope: Scope) -> ast.expr | None:
        if self.program.canonical(call.func) in _SIGMOIDS:
            return call.args[0] if call.args else None
        if self.program.values.of(call.func, scope).name == "torch.nn.Sigmoid":
            return call.args[0] if call.args else None
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("sigmoid", "sigmoid_") and not call.args:
            return call.func.value
        return None

    def _functions(self, call: ast.Call, scope: Scope) -> list[Function]:
        function = self.program.values.callee(call, scope)
        if function is not None:
            return [function]
        value = self.program.values.of(call.func, scope)
        forward = self.program.graph.method(value.cls, "forward") if value.cls is not None else None
        if forward is None:
            where = (
                "in an nn.Sequential"
                if value.kind is Kind.MODEL and value.name == "torch.nn.Sequential"
                else "out of sight"
            )
            raise self._refuse(call, f"the sigmoid is {where}")
        return [forward]

    def _cast_others(self, call: ast.Call) -> None:
        """Other outputs of the model that the late statement computes with (mu, logvar) leave the region as float."""
        probabilities = {id(p) for p in self._probabilities(call, self.scope)}
        for given in [*call.args, *(k.value for k in call.keywords)]:
            if id(given) not in probabilities and isinstance(given, ast.Name) and self._is_output(given):
                self.hazards.cast(given)

    def _is_output(self, name: ast.Name) -> bool:
        """Whether a name was last bound by a statement that runs a model."""
        bindings = [b for b in self.scope.bindings.get(name.id, []) if getattr(b.statement, "lineno", 0) < name.lineno]
        value = bindings[-1].value if bindings else None
        return value is not None and bool(self.program.effects.of_statement(value, self.scope) & Effect.FORWARD)


def _unshaped(expr: ast.expr) -> ast.expr:
    """The tensor behind `x.view(-1)`, `x[:, 0]`, `torch.squeeze(x)`."""
    while True:
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute) and expr.func.attr in _SHAPES:
            plain = isinstance(expr.func.value, ast.Name) and expr.func.value.id in ("torch", "th")
            expr = expr.args[0] if plain and expr.args else expr.func.value
        elif isinstance(expr, ast.Subscript):
            expr = expr.value
        else:
            return expr
