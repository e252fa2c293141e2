"""Whether a training step runs whenever something else in its function does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import always_runs, nodes_in
from amp_migrate.rewrite.proof.rewritten_file import RewrittenFile

_PERHAPS = (
    ast.BoolOp,
    ast.IfExp,
    ast.Lambda,
    ast.comprehension,
    ast.GeneratorExp,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Try,
    ast.Match,
)
"""What may leave out what stands in it."""


class TrainedBeside(RewrittenFile):
    """What runs with a node of a file."""

    def trains_beside(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a backward pass or a step runs whenever a node of the same body does, there or in
        a method that is called there.
        """
        around = set(self.conditions(node))
        return any(
            around.issuperset(self.conditions(call))
            and (
                self._is_of_training(call)
                or not leaves(scope, node, call)
                and self._runs_training(call, scope)
            )
            for call in scope.calls
        )

    def _is_of_training(self, call: ast.Call) -> bool:
        func = call.func
        return isinstance(func, ast.Attribute) and (
            func.attr == "backward" or self.is_step(call)
        )

    def _runs_training(self, call: ast.Call, scope: Scope) -> bool:
        """Whether all methods of the same object that a call may run train."""
        if not self.is_sure(call, {self.program.module.statement_of(call)}):
            return False
        owner, _, rest = (dotted_name(call.func) or "").partition(".")
        if owner != scope.self_name or "." in rest:
            return False
        run = self.program.values.callees(call, scope)
        return bool(run) and all(
            always_runs(one.body, self._is_of_training) for one in run
        )

    def is_sure(self, call: ast.Call, statements: set[ast.AST]) -> bool:
        """Whether a call runs whenever one of some statements does."""
        for one in self.program.module.ancestors(call):
            if isinstance(one, _PERHAPS):
                return False
            if isinstance(one, ast.stmt):
                return one in statements
        return False

    def conditions(self, node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
        """The branches that a node stands in."""
        here = node
        for parent in self.program.module.ancestors(node):
            if isinstance(parent, ast.If) and here is not parent.test:
                yield parent, here in parent.body
            here = parent

    def is_step(self, call: ast.Call) -> bool:
        """`scaler.step(optimizer)`"""
        func = call.func
        steps = (
            isinstance(func, ast.Attribute)
            and func.attr == "step"
            and bool(call.args)
        )
        return (
            steps
            and isinstance(func, ast.Attribute)
            and self.forms.is_scaler(func.value)
        )


def leaves(scope: Scope, node: ast.expr, call: ast.Call) -> bool:
    """Whether a body may return between the two, so that the one runs without the other: an
    evaluation that shares the method.
    """
    return any(
        isinstance(one, ast.Return) and node.lineno < one.lineno < call.lineno
        for statement in scope.body
        for one in nodes_in(statement)
    )
