"""The functions and the models' `forward`s that a call runs, of which the results may be
probabilities.
"""

from __future__ import annotations

import ast

from amp_migrate.model.kinds import Kind
from amp_migrate.model.losses import Behind, body_of, callables
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Function, Scope
from amp_migrate.planner.half_safety.bce_refusal import (
    place_of_definition,
    unsafe,
)
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.refusal import Refusal
from amp_migrate.torch_facts import layers


class Runs:
    """Answers for one program. Raises Refusal where something is out of sight."""

    def __init__(
        self, program: Program, scope: Scope, hazards: Hazards
    ) -> None:
        self.program = program
        self.scope = scope
        self.hazards = hazards

    def of(self, call: ast.Call, scope: Scope) -> list[Function]:
        """All that a call may run."""
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
            self.program,
            self.scope,
            node,
            why,
            behind=behind,
            above=above,
            is_loss=False,
        )


def _is_wrapper(name: str) -> bool:
    """A function or class of torch that hands back, or runs, the model that it is given."""
    row = layers.layer(name)
    is_layer = row is not None and row.role != "wrapper"
    is_layer = is_layer or name == "torch.nn.Sequential"
    return name.startswith(("torch.", "copy.")) and not is_layer
