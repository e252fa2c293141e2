"""A function that uses the GradScaler is compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.steps.recognition import Trait
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.torch_facts.amp_api import SCALER_METHODS

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
    for call in _compiled_methods(program):
        yield finding_at(program, call, RULE, message)


def _compiled_methods(program: Program) -> Iterator[ast.Call]:
    """`torch.compile(scaler.step)`"""
    for scope in program.module.scopes.values():
        for call in scope.calls:
            given = call.args[0] if call.args else None
            if (
                isinstance(given, ast.Attribute)
                and program.canonical(call.func) == "torch.compile"
                and given.attr in SCALER_METHODS
                and program.events.is_scaler(given.value, scope)
            ):
                yield call


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
            if program.canonical(call.func) == "torch.compile":
                for function in _given(program, call, scope):
                    yield call, function


def _given(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[Function]:
    """The functions that are compiled: a name that is bound anew, as in `step =
    torch.compile(step)`, and a method's, too.
    """
    named = (one.value for one in call.keywords if one.arg == "model")
    given = call.args[0] if call.args else next(named, None)
    if isinstance(given, ast.Name):
        home = scope.lookup(given.id)
        bound = home.bindings.get(given.id, []) if home is not None else []
        for one in bound:
            if isinstance(one.statement, FUNCTIONS) and one.how != "parameter":
                yield one.statement
    elif isinstance(given, ast.Attribute):
        cls = program.graph.class_around(scope)
        is_own = isinstance(given.value, ast.Name) and (
            given.value.id == scope.self_name
        )
        if cls is not None and is_own:
            method = program.graph.method(cls, given.attr)
            if method is not None:
                yield method
