"""The calls of a `nn.Sequential` whose first layer is a module in sight: its `forward` gets what
the call gets.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.forwards.model_runs import called_values
from amp_migrate.model.syntax.module import Scope
from amp_migrate.torch_facts.layers import SEQUENCE

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_Runs: TypeAlias = "dict[ast.ClassDef, list[tuple[ast.Call, Scope]]]"


def first_runs(program: Program) -> _Runs:
    """These calls, by the class of the first layer."""
    return program.remembered(first_runs, lambda: _found(program))


def always_first(program: Program, cls: ast.ClassDef) -> bool:
    """Whether all objects of a class are such layers, so that nothing else runs them."""
    made = program.graph.constructions(cls)
    runs = first_runs(program)
    return cls in runs and all(_is_first(program, call) for call, _ in made)


def _is_first(program: Program, made: ast.Call) -> bool:
    above = program.module.parents.get(made)
    return (
        isinstance(above, ast.Call)
        and above.args[:1] == [made]
        and program.canonical(above.func) == SEQUENCE
    )


def _found(program: Program) -> _Runs:
    found: _Runs = {}
    for call, scope, value in called_values(program):
        if value.name != SEQUENCE or not isinstance(value.origin, ast.Call):
            continue
        cls = _first(program, value.origin)
        if cls is not None and not _is_put_before(program):
            found.setdefault(cls, []).append((call, scope))
    return found


def _is_put_before(program: Program) -> bool:
    """`layers.insert(0, scale)`: something in the file may come before the first layer."""
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr == "insert"
        for scope in program.module.scopes.values()
        for call in scope.calls
    )


def _first(
    program: Program,
    made: ast.Call,
) -> ast.ClassDef | None:
    """The class of the first layer, of a sequence within as well."""
    first: ast.expr = made
    while isinstance(first, ast.Call) and (
        program.canonical(first.func) == SEQUENCE
    ):
        if not first.args or first not in program.module.parents:
            return None
        first = first.args[0]
    if not isinstance(first, ast.Call):
        return None
    home = program.module.scope_of(first)
    return program.graph.class_named(first.func, home)
