"""Scalers that a setting switches off beside regions that are always on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.patterns import pattern

_DEVICE = pattern(r"(?i)cuda|gpu|device|available")
_TESTS = (ast.If, ast.IfExp, ast.While, ast.Assert)


def switched_backwards(
    program: Program,
) -> Iterator[tuple[ast.Call, ast.Call, Scope]]:
    """Backward passes of losses that a scaler scales which may be off, each with the call that
    scales.
    """
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if program.events.what(call, scope) is not EventKind.BACKWARD:
                continue
            func = call.func
            scaled = func.value if isinstance(func, ast.Attribute) else None
            if isinstance(scaled, ast.Call) and scaled.args:
                if _may_be_off(program, scaled, scope):
                    yield call, scaled, scope


def _may_be_off(program: Program, scaled: ast.Call, scope: Scope) -> bool:
    """Whether a setting that nothing else here asks for switches the scaler."""
    func = scaled.func
    if program.events.what(scaled, scope) is not EventKind.SCALE:
        return False
    assert isinstance(func, ast.Attribute)
    made = program.values.of(func.value, scope).origin
    given = made.keywords if isinstance(made, ast.Call) else []
    switch = next((one.value for one in given if one.arg == "enabled"), None)
    name = dotted_name(switch) if switch is not None else None
    if switch is None or name is None or _DEVICE.search(name):
        return False
    if switch not in program.module.parents:
        return False
    home = program.module.scope_of(switch)
    return not _is_of_device(program, switch, home) and not _is_asked(
        program, name.rpartition(".")[2]
    )


def _is_of_device(program: Program, switch: ast.expr, scope: Scope) -> bool:
    """Whether what the switch is set to has to do with the device: with none, regions are off."""
    return any(
        _DEVICE.search(ast.unparse(value))
        for _, value, _ in held(program, switch, scope)
    )


def _is_asked(program: Program, word: str) -> bool:
    """Whether some condition mentions a variable or an attribute of that name."""
    return any(
        word in _words(node.test)
        for node in program.module.parents
        if isinstance(node, _TESTS)
    )


def _words(test: ast.expr) -> set[str]:
    names = {n.id for n in nodes_in(test) if isinstance(n, ast.Name)}
    return names | {
        n.attr for n in nodes_in(test) if isinstance(n, ast.Attribute)
    }
