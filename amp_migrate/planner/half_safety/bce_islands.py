"""Binary cross-entropy on probabilities in a function that runs under autocast, such as the
`forward` of a model that computes its own loss: its statement is computed with autocast switched
off, from a sigmoid in float32, or the loop is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.trail import Place
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import calls_in, nodes_in
from amp_migrate.model.tensors.spelling import operands, spelled
from amp_migrate.planner.half_safety.bce_refusal import refuse_handed, unsafe
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.islands import is_island
from amp_migrate.planner.half_safety.reach import perhaps_reachable
from amp_migrate.planner.half_safety.sigmoids import Sigmoids
from amp_migrate.torch_facts import layers

_RULE = "bce-on-probabilities"
_IN_ONE = (
    "other layers or functions run in its statement: give what they compute "
    "names first"
)


def set_apart(
    hazards: Hazards, statements: list[ast.stmt], scope: Scope
) -> None:
    """Collect the statements of functions that `statements` run, which compute the loss. Raises
    Refusal where one of them, or its sigmoid, is out of reach.
    """
    found: dict[ast.stmt, list[ast.Call]] = {}
    module = hazards.program.module
    for node, where in perhaps_reachable(hazards.program, statements, scope):
        if isinstance(node, ast.Call):
            refuse_handed(hazards.program, node, where)
        if isinstance(node, ast.Call) and hazards.bans(node, where):
            statement = module.statement_of(node)
            if hazards.inside.own(node) is None:
                found.setdefault(statement, []).append(node)
    for statement in sorted(found, key=lambda one: module.span(one).start):
        _Island(hazards, scope, statement, found[statement]).write()


class _Island:
    """One statement that computes the loss."""

    def __init__(
        self,
        hazards: Hazards,
        loop: Scope,
        statement: ast.stmt,
        losses: list[ast.Call],
    ) -> None:
        """`losses`: its calls of the loss; `loop`: the scope of the region that leads there."""
        self.hazards = hazards
        self.loop = loop
        self.statement = statement
        self.losses = losses
        self.scope = hazards.program.module.scope_of(statement)

    def write(self) -> None:
        """The sigmoids and the other operands become float32, and autocast is off."""
        hazards, asked = self.hazards, self.hazards.asked
        losses = [*self.losses, *self._criteria()]
        if not is_island(asked, self.statement, losses):
            raise unsafe(hazards.program, self.loop, self.losses[0], _IN_ONE)
        sigmoids = Sigmoids(hazards.program, self.loop, hazards)
        given = [
            probability
            for call in self.losses
            for probability in call.args[:1] or _named(call, "input")
        ]
        for probability in given:
            sigmoids.mend(probability, Place(self.scope))
        hazards.leave(self.statement)
        self._cast_listed(given)
        for expr in self._operands():
            if asked.needs_cast(expr, self.scope):
                hazards.cast(expr, _RULE)
        hazards.islands[self.statement] = _RULE

    def _cast_listed(self, given: list[ast.expr]) -> None:
        """A probability is a tensor, whatever lists its callers keep it in."""
        for expr in given:
            fact = self.hazards.asked.fact(expr, self.scope)
            is_half = fact._replace(container=False).may_be_half
            if fact.container and is_half:
                self.hazards.cast(expr, _RULE)

    def _criteria(self) -> list[ast.Call]:
        """Other losses of torch in the statement, which autocast would compute in float32."""
        found = []
        for call in calls_in(self.statement):
            value = self.hazards.program.values.of(call.func, self.scope)
            row = layers.layer(value.name)
            if row is not None and row.op is not None:
                found += [call] * (row.op.policy == "fp32")
        return found

    def _operands(self) -> Iterator[ast.expr]:
        """What autocast would compute with in float32, or refuse to. A weight may be of any type:
        the loss is multiplied by it when it is computed.
        """
        for call in self.losses:
            yield from (*call.args[:2], *_named(call, "input", "target"))
        for call in self._criteria():
            yield from (*call.args, *_named(call, "input", "target"))
        for call in calls_in(self.statement):
            found = spelled(self.hazards.asked.inference, call, self.scope)
            if found is not None and found.policy != "keeps":
                yield from operands(found, call)
        for node in nodes_in(self.statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
                yield node.left


def _named(call: ast.Call, *names: str) -> list[ast.expr]:
    return [k.value for k in call.keywords if k.arg in names]
