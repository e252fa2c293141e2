"""A scaler is read only where its optimizer may be read, and the value of its step by nobody."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.names import dotted_name
from amp_migrate.model.step_values import is_value_used
from amp_migrate.model.syntax import Scope
from amp_migrate.rewrite.proof.rewritten_file import RewrittenFile, Unproved


class ScalerReads(RewrittenFile):
    """The scalers of a file, and their steps."""

    def scaler(self, node: ast.Name | ast.Attribute) -> Iterator[Unproved]:
        """A scaler is read only where its optimizer may be read."""
        dotted = dotted_name(node)
        if (
            dotted is None
            or not isinstance(node.ctx, ast.Load)
            or self.is_bound(node, dotted)
        ):
            return
        scope = self.program.module.scope_of(node)
        stepped = [c.args[0] for c in scope.calls if self._is_step(c)]
        names = [
            name for expr in stepped if (name := dotted_name(expr)) is not None
        ]
        if len(names) < len(stepped) or any(
            not self.is_bound(node, name) for name in names
        ):
            return
        if not stepped or dotted.partition(".")[0] in self.introduced.given:
            return
        if any(self._is_made_beside(dotted, name, scope) for name in names):
            return
        yield self.failure(node, f"`{dotted}` may have no value there")

    def _is_made_beside(
        self, dotted: str, optimizer: str, scope: Scope
    ) -> bool:
        """Whether the scaler is set in the statement after each that sets an optimizer, so that
        where the one has a value, the other has.
        """
        home, module = scope.lookup(optimizer), self.program.module
        made = home.bindings.get(optimizer, []) if home is not None else []
        set_here = (
            [b.statement for b in home.bindings.get(dotted, [])]
            if home is not None
            else []
        )
        if not made or any(
            not isinstance(one.statement, ast.Assign) for one in made
        ):
            return False
        for binding in made:
            assert isinstance(binding.statement, ast.Assign)
            block = module.block_of(binding.statement)
            after = block[block.index(binding.statement) + 1 :][:1]
            if not any(one is after[0] for one in set_here if after):
                return False
        return True

    def _is_step(self, call: ast.Call) -> bool:
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

    def step_values(self) -> Iterator[Unproved]:
        """`GradScaler.step` gives None where it skips a step, whatever the optimizer's would."""
        for node in self.file.nodes:
            if isinstance(node, ast.Call) and self._is_step(node):
                scope = self.program.module.scope_of(node)
                if is_value_used(self.program, node, node.args[0], scope):
                    yield self.failure(
                        node, "its value is used, and a skipped step has none"
                    )
