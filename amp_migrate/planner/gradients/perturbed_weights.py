"""Weights that a method perturbs by the direction of their gradients for one more forward: where a
gradient overflowed, that forward gives nan, which the scaler's skipped step forgets, and the
running statistics of a model do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.gradients.scale_free import is_scale_free
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.refusal import Refusal, place_of
from amp_migrate.torch_facts import layers

_RUNNING = ("nn.functional.batch_norm", "nn.functional.instance_norm")


def refuse_perturbed(program: Program, scope: Scope) -> None:
    """Raise Refusal where such a forward may run a layer that keeps statistics."""
    for call in scope.calls:
        function = program.values.callee(call, scope)
        if function is None or not is_scale_free(program, function):
            continue
        for home in _homes(program, scope):
            layer = next(_keeping(home), None)
            if layer is not None:
                raise Refusal(
                    "grad-read-before-unscale",
                    call,
                    f"`{ast.unparse(call.func)}` perturbs weights by gradients that may have "
                    f"overflowed, and `{ast.unparse(layer.func)}` ({place_of(home, layer)}) "
                    "keeps what the forward then gives in its running statistics",
                )


def _homes(program: Program, scope: Scope) -> list[Program]:
    """The program, and the files of the models that a body runs."""
    found = {program: None}
    for call in scope.calls:
        value = program.values.of(call.func, scope)
        if value.foreign is not None:
            found[value.foreign[0]] = None
    return list(found)


def _keeping(home: Program) -> Iterator[ast.Call]:
    for scope in home.module.scopes.values():
        for call in scope.calls:
            row = layers.layer(home.canonical(call.func))
            if row is not None and row.op is not None:
                if row.op.name in _RUNNING:
                    yield call
