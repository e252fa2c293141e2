"""Binary cross-entropy on probabilities: the sigmoid gets float32 and the loss stands after the
region, or the loop is refused.

CUDA autocast bans the loss, and a half sigmoid has saturated before any cast (amp-semantics section
2, amp-pitfalls 3.4).
"""

from __future__ import annotations

import ast
from typing import TypeGuard

from amp_migrate.model.forwards.loss_origins import Behind
from amp_migrate.model.forwards.losses import bce_behind, body_of
from amp_migrate.model.half_safety.trail import Origin, Place
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import (
    Function,
    Scope,
    shallow,
)
from amp_migrate.planner.half_safety.bce_refusal import (
    loss_in,
    place_of_definition,
    unsafe,
)
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.naming import Nameable, Unnamed
from amp_migrate.planner.half_safety.reach import perhaps_reachable
from amp_migrate.planner.half_safety.sigmoids import Sigmoids
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.kept_by_models import read_by_methods
from amp_migrate.planner.regions.loss_flow import flow_of, header
from amp_migrate.planner.regions.statement_runs import receivers

_NAMED_IN = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
_DEEP = 8
_KEPT = (
    "it is computed by a method of the model, of what its forward keeps: compute it there with "
    "autocast switched off, of `.float()`"
)
_IN_RECEIVER = (
    "the model runs in what backward is called on: give its output a name first"
)


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
        self.sigmoids = Sigmoids(program, scope, hazards)
        self._late: dict[ast.stmt, None] = {}
        """The statements that compute the loss themselves."""

    def late(self) -> frozenset[ast.stmt]:
        """Loss statements that must stay in float32, outside of autocast."""
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
                if self._of(expr) & EventKind.BCE and not self._within(at):
                    if self._runs_model(at):
                        raise self._unsafe(call, _IN_RECEIVER, self._unnamed())
                    late[at] = None
                    self._late[at] = None
                for step in self.flow.slice(expr, at):
                    if self._within(step.statement):
                        continue
                    direct = self._effect(step.statement) & EventKind.BCE
                    if direct and self._reads_kept(step.statement):
                        raise self._unsafe(step.statement, _KEPT)
                    if direct or step.uses & changed:
                        if self._runs_model(step.statement):
                            if self._is_apart_inside(step.statement):
                                continue
                            why = self._in_one(step.statement)
                            raise self._unsafe(
                                step.statement, why, self._unnamed()
                            )
                        late[step.statement] = None
                        changed |= step.defines
                    if direct:
                        self._late[step.statement] = None
        return frozenset(late)

    def _within(self, statement: ast.stmt) -> bool:
        """Whether all that computes the loss in a statement runs the model as well: the loss is
        set apart there.
        """
        losses = [
            node
            for root in header(statement)
            for node in shallow(root)
            if self._computes_bce(node, self.scope)
        ]
        return bool(losses) and all(
            self._is_forward(node)
            and not self.program.effects.is_bce(node, self.scope)
            and not self._is_loss(node)
            for node in losses
        )

    def _reads_kept(self, statement: ast.stmt) -> bool:
        """`loss = model.loss()` of what the forward has left on the model, in half precision."""
        read = read_by_methods(header(statement), self.scope, self.program)
        return any(read & step.defines for step in self.flow.steps)

    def _is_apart_inside(self, statement: ast.stmt) -> bool:
        """Whether a statement with the model in it, to which no name can be given, has all its
        losses computed in bodies that it runs: each is set apart there.
        """
        if any(one.statement is statement for one in self._unnamed()):
            return False
        losses = [
            node
            for root in header(statement)
            for node in shallow(root)
            if self._computes_bce(node, self.scope)
        ]
        nodes = perhaps_reachable(self.program, [statement], self.scope)
        run = {where.node for _, where in nodes}
        if any(self.program.effects.is_bce(one, self.scope) for one in losses):
            return False
        bodies = [self._bodies(one, self.scope) for one in losses]
        return bool(bodies) and all(
            one and run.issuperset(one) for one in bodies
        )

    def _of(self, expr: ast.expr) -> EventKind:
        return self.program.effects.of_statement(expr, self.scope)

    def _unnamed(self) -> tuple[Unnamed, ...]:
        """What to name in the statements that compute the loss and run the model, or call
        backward.
        """
        found = []
        for step in self.flow.steps:
            statement = step.statement
            value = getattr(statement, "value", None)
            if (
                isinstance(value, ast.expr)
                and isinstance(statement, _NAMED_IN)
                and self._effect(statement) & EventKind.BCE
            ):
                found.append(self._unnamed_in(statement, value))
        return tuple(one for one in found if one.operands)

    def _unnamed_in(self, statement: ast.stmt, value: ast.expr) -> Unnamed:
        nameable = Nameable(
            lambda call: self._is_forward(call) and not self._is_loss(call),
            lambda call: self._computes_bce(call, self.scope),
            lambda call: self.program.effects.is_bce(call, self.scope),
        )
        return Unnamed(
            statement, nameable.operands(value), nameable.losses(value)
        )

    def _is_forward(self, node: ast.AST) -> bool:
        found = self.program.effects.of_node(node, self.scope)
        return bool(found & EventKind.FORWARD)

    def _effect(self, statement: ast.stmt) -> EventKind:
        """What a statement does itself, not what stands in its block."""
        effect = EventKind.NONE
        for root in header(statement):
            effect |= self.program.effects.of_statement(root, self.scope)
        return effect

    def _runs_model(self, statement: ast.stmt) -> bool:
        """Whether a statement runs a model; a module that only computes the loss is none."""
        return any(
            self._is_forward(node) and not self._is_loss(node)
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
                places = ", ".join(
                    place_of_definition(loss_in(one)) for one in behind
                )
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

    def _unsafe(
        self,
        node: ast.AST,
        why: str,
        unnamed: tuple[Unnamed, ...] = (),
        behind: tuple[Behind, ...] = (),
    ) -> Refusal:
        return unsafe(self.program, self.scope, node, why, unnamed, behind)

    def mend(self) -> None:
        """The sigmoids behind the late losses get float32, once it is known what the regions
        hold.
        """
        for statement in self._late:
            for root in header(statement):
                for node in shallow(root):
                    if self._computes_bce(node, self.scope):
                        self._mend(node)

    def _mend(self, call: ast.Call) -> None:
        self.sigmoids.met.clear()
        start = Place(self.scope)
        origin = Origin.NONE
        for probability, place in self._probabilities(call, start):
            origin |= self.sigmoids.mend(probability, place)
        for given in [*call.args, *(k.value for k in call.keywords)]:
            if given not in self.sigmoids.met:
                self._cast_other(given)
            elif Origin.RAW in origin and not self.hazards.is_seen_half(given):
                self.hazards.cast(given)  # what is seen leaves as float

    def _computes_bce(self, node: ast.AST, scope: Scope) -> TypeGuard[ast.Call]:
        """Whether a node is a call that computes the loss, itself or in what it runs."""
        return isinstance(node, ast.Call) and bool(
            self.program.effects.of_node(node, scope) & EventKind.BCE
        )

    def _probabilities(
        self, call: ast.Call, place: Place
    ) -> list[tuple[ast.expr, Place]]:
        """What the loss gets as its input where `call` computes it, here or in helpers in sight."""
        scope, found = place.scope, list[tuple[ast.expr, Place]]()
        if self.program.effects.is_bce(call, scope):
            found += [
                (one, place)
                for one in call.args[:1]
                or [k.value for k in call.keywords if k.arg == "input"]
            ]
        for body in self._bodies(call, scope):
            inner = self.program.module.scopes[body]
            is_around = any(one.inner is inner for one in place.frames)
            if is_around or len(place.frames) == _DEEP:
                raise self._unsafe(call, "it is computed in code out of sight")
            step = place.into(inner, call)
            for nested in inner.calls:
                if self._computes_bce(nested, inner):
                    found += self._probabilities(nested, step)
        if not found:
            raise self._unsafe(call, "it is computed in code out of sight")
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
                raise self._unsafe(
                    call,
                    f"it is computed in {place_of_definition(behind)}, out of reach",
                    behind=(behind,),
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

    def _cast_other(self, given: ast.expr) -> None:
        """Another output of the model that the late statement computes with (mu, logvar) leaves
        the region as float.
        """
        if (
            isinstance(given, ast.Name)
            and self._is_output(given)
            or isinstance(given, ast.Subscript)
            and self._is_item(given)
        ):
            self.hazards.cast(given)

    def _is_item(self, given: ast.Subscript) -> bool:
        """`outputs[i]` of several outputs of the model."""
        several = isinstance(given.value, ast.Name)
        fact = self.hazards.asked.fact(given, self.scope)
        return several and fact.seen_half and not fact.container

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
