"""A scaler steps with what it has scaled itself: a function that scales by a scaler which it may be
given gets it of every caller that steps.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.rewrite.proof.rewritten_file import RewrittenFile, Unproved

_STEPS = ("step", "unscale_")


class OptionalScalers(RewrittenFile):
    """The calls of the functions of a file that replace a missing scaler by one that is off."""

    def left_out(self) -> Iterator[Unproved]:
        """Calls that pass no scaler, in a body that steps with one."""
        for scope in self.file.own_scopes:
            function = scope.node
            if isinstance(function, FUNCTIONS) and self._only_scales(scope):
                yield from self._without(function)

    def _only_scales(self, scope: Scope) -> bool:
        """Whether a function scales by a scaler that it may lack, and leaves the step to others."""
        return (
            any(map(self.forms.is_prologue, scope.body[:2]))
            and self._asks(scope, "scale")
            and not self._asks(scope, *_STEPS)
        )

    def _without(self, function: Function) -> Iterator[Unproved]:
        for site in self.program.graph.sites(function):
            if self._is_handed(site.call):
                continue
            if self._asks(site.scope, *_STEPS):
                yield self.failure(
                    site.call,
                    f"`{function.name}` scales by a scaler of its own there, and another one steps",
                )

    def _is_handed(self, call: ast.Call) -> bool:
        """Whether a call passes a scaler."""
        given = [*call.args, *(k.value for k in call.keywords)]
        return any(map(self.forms.is_scaler, given))

    def _asks(self, scope: Scope, *methods: str) -> bool:
        """Whether a body calls a method of a scaler."""
        for call in scope.calls:
            for method in methods:
                if self.forms.method(call, method, 1) is not None:
                    return True
        return False
