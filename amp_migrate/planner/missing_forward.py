"""A loss behind which no forward is in sight: a penalty on parameters, or a refusal."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope, shallow
from amp_migrate.planner.loss_flow import flow_of, header
from amp_migrate.planner.refusal import Refusal


class MissingForward:
    """The losses of one backward call of a scope."""

    def __init__(
        self, program: Program, scope: Scope, losses: Sequence[ast.expr]
    ) -> None:
        self.program = program
        self.scope = scope
        self.losses = losses

    def is_penalty(self, at: ast.stmt) -> bool:
        """Whether they are made of parameters of a model."""
        flow = flow_of(self.scope, self.program)
        steps = (s for expr in self.losses for s in flow.slice(expr, at))
        roots = [*self.losses, *(r for s in steps for r in header(s.statement))]
        return any(self._reads_parameters(root) for root in roots)

    def _reads_parameters(self, root: ast.AST) -> bool:
        """`model.parameters()`, `model.fc.weight`, `penalty(model)`."""
        values = self.program.values
        for node in shallow(root):
            if isinstance(node, ast.Attribute) and values.is_model(
                node.value, self.scope
            ):
                return True
            given = (
                [*node.args, *(k.value for k in node.keywords)]
                if isinstance(node, ast.Call)
                else []
            )
            if any(values.is_model(one, self.scope) for one in given):
                return True
        return False

    def refusal(self, call: ast.Call) -> Refusal:
        """Why nothing can be put under autocast for a backward."""
        loss = " + ".join(map(ast.unparse, self.losses)) or "the loss"
        why = f"nothing that computes `{loss}` in `{self.scope.qualname}` is known to run a model, "
        why += "so there is nothing to put under autocast"
        for attribute, method in self._set_elsewhere():
            name = method.qualname.rpartition(".")[2]
            why = f"`{attribute}`, of which the loss is made, is set in `{name}`: "
            why += "compute the loss where its backward is called"
        return Refusal("loss-computed-elsewhere", call, why)

    def _set_elsewhere(self) -> Iterator[tuple[str, Scope]]:
        """`self.loss` of a backward, and the only other method of the class that sets it."""
        cls = self.program.graph.class_around(self.scope)
        held = (
            self.program.module.scopes[cls].bindings if cls is not None else {}
        )
        for node in (n for expr in self.losses for n in shallow(expr)):
            if not isinstance(node, ast.Attribute):
                continue
            head, _, rest = (dotted_name(node) or "").partition(".")
            if head == self.scope.self_name:
                bindings = held.get(f"self.{rest}", ())
                home = self.program.module.scope_of
                where = {home(one.statement) for one in bindings}
                if len(where) == 1 and self.scope not in where:
                    yield ast.unparse(node), where.pop()
