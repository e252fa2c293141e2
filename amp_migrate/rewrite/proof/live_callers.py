"""What the callers of a function pass, but for callers that nothing runs: the `forward` of a class
that no file of the program names, which another program may make.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.model.tensors.parameters import arguments

_LOOKS_UP = frozenset(
    {"eval", "getattr", "globals", "import_module", "vars", "__dict__"}
)
"""What may find a class by a text."""


def passed(program: Program, binding: Binding) -> list[tuple[ast.expr, Scope]]:
    """The arguments for a parameter, with the scopes of the calls."""
    given = arguments(program, binding)
    live = [one for one in given if not _is_idle(program, one[1])]
    return live or given


def _is_idle(program: Program, scope: Scope) -> bool:
    owner = scope.owner.node if scope.owner is not None else None
    function = scope.node
    if not isinstance(owner, ast.ClassDef) or owner.decorator_list:
        return False
    if not isinstance(function, FUNCTIONS) or function.name != "forward":
        return False
    named = _named(program)
    return not named & {owner.name, *_LOOKS_UP}


def _named(program: Program) -> frozenset[str]:
    """The names that the program reads, those of base classes among them, and attributes."""

    def found() -> frozenset[str]:
        nodes = program.module.parents
        names = {one.id for one in nodes if isinstance(one, ast.Name)}
        read = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        read -= {"eval"}  # `model.eval()` evaluates no text
        return frozenset(names | read)

    return program.remembered((_named,), found)
