"""A loss behind which no forward is in sight: a penalty on parameters, or a refusal."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.model.gradients.flow import functions_run
from amp_migrate.model.gradients.leaves import is_leaf
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope, returned, shallow
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.loss_flow import flow_of, header

_DEEP = 3
"""Helpers within helpers that may make a loss."""


class MissingForward:
    """The losses of one backward call of a scope."""

    def __init__(
        self, program: Program, scope: Scope, losses: Sequence[ast.expr]
    ) -> None:
        self.program = program
        self.scope = scope
        self.losses = losses

    def is_penalty(self, at: ast.stmt) -> bool:
        """Whether they are made of parameters: of a model, or trained for themselves."""
        return any(
            self._is_made_of_them(loss, at, _DEEP) for loss in self.losses
        )

    def _is_made_of_them(self, loss: ast.expr, at: ast.stmt, deep: int) -> bool:
        flow = flow_of(self.scope, self.program)
        steps = flow.slice(loss, at, flow.without_gradient)
        carry = (
            s.statement for s in steps if not flow.without_gradient(s.statement)
        )
        roots = [loss, *(root for one in carry for root in header(one))]
        return any(
            self._reads_parameters(root)
            or deep
            and self._in_helpers(root, deep)
            for root in roots
        )

    def _in_helpers(self, root: ast.AST, deep: int) -> bool:
        """Whether a helper that is called there gives back what is made of them."""
        calls = (one for one in shallow(root) if isinstance(one, ast.Call))
        return any(
            MissingForward(home, home.scope(function), ()).gives_parameters(
                function, deep - 1
            )
            for call in calls
            for home, function in functions_run(self.program, call, self.scope)
        )

    def gives_parameters(self, function: Function, deep: int) -> bool:
        statement_of = self.program.module.statement_of
        return any(
            self._is_made_of_them(one, statement_of(one), deep)
            for one in returned(function)
        )

    def _reads_parameters(self, root: ast.AST) -> bool:
        """`model.parameters()`, `model.fc.weight`, `penalty(model)`, `self.log_alpha`."""
        values = self.program.values
        for node in shallow(root):
            if isinstance(node, (ast.Name, ast.Attribute)) and is_leaf(
                self.program, node
            ):
                return True
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
        parents = self.program.module.parents
        for node in (n for expr in self.losses for n in shallow(expr)):
            if not isinstance(node, ast.Attribute):
                continue
            if isinstance(parents.get(node), ast.Attribute):
                continue  # `self.config` of `self.config.weight`
            head, _, rest = (dotted_name(node) or "").partition(".")
            if head == self.scope.self_name:
                bindings = held.get(f"self.{rest}", ())
                home = self.program.module.scope_of
                where = {home(one.statement) for one in bindings}
                where = {one for one in where if not _constructs(one)}
                if len(where) == 1 and self.scope not in where:
                    yield ast.unparse(node), where.pop()


def _constructs(scope: Scope) -> bool:
    """What `__init__` sets is a weight or an option: no loss of a batch."""
    return scope.qualname.rpartition(".")[2] == "__init__"
