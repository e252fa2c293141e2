"""A function that uses the GradScaler is compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.recognition import Trait
from amp_migrate.model.syntax import FUNCTIONS, Function

RULE = Rule("compile-with-scaler", severity="warning", without_amp=True)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find `torch.compile` of functions that call a scaler."""
    if (
        "compile" not in program.module.text
        or "caler" not in program.module.text
    ):
        return
    message = (
        "methods of the GradScaler cannot be traced: the graph breaks at each, or "
        "compiling fails; compile the model or the loss"
    )
    for place, function in _compiled(program):
        if Trait.SCALER in program.events.of_function(function):
            yield finding_at(program, place, RULE, message)


def _compiled(program: Program) -> Iterator[tuple[ast.expr, Function]]:
    for node, scope in program.module.scopes.items():
        if isinstance(node, FUNCTIONS):
            for decorator in node.decorator_list:
                if (
                    program.canonical(
                        decorator.func
                        if isinstance(decorator, ast.Call)
                        else decorator
                    )
                    == "torch.compile"
                ):
                    yield decorator, node
        for call in scope.calls:
            if (
                program.canonical(call.func) == "torch.compile"
                and call.args
                and isinstance(call.args[0], ast.Name)
            ):
                function = program.graph.function_named(call.args[0].id, scope)
                if function is not None:
                    yield call, function
