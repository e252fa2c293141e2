"""The methods that `net.infer(x)` may run of a `net` that another file makes: of each class that a
factory there, or a class's `__new__`, gives an object of.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.targets import makers
from amp_migrate.model.classes.bases_abroad import method_of
from amp_migrate.model.classes.factories import behind
from amp_migrate.model.files.neighbours import Definition
from amp_migrate.model.naming.one_of_several import all_abroad
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope


def methods_behind(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, Function]]:
    """Those of other files; of a class that the program names itself others tell."""
    func = call.func
    if not isinstance(func, ast.Attribute):
        return
    if program.values.of(func.value, scope).foreign is None:
        return
    for made in makers(program, func.value, scope):
        if isinstance(made, ast.expr) and made in program.module.parents:
            where = program.module.scope_of(made)
            for found in all_abroad(program, made, where):
                yield from _methods(found, func.attr)


def _methods(
    found: Definition, name: str
) -> Iterator[tuple[Program, Function]]:
    """The methods of a name of all that a definition may make."""
    home, one = found
    if isinstance(one, ast.ClassDef):
        new = home.graph.method(one, "__new__")
        if new is None:
            return
        one = new
    for there, made in behind(home, (home, one)):
        if isinstance(made, ast.ClassDef):
            method = method_of(there, made, name)
            yield from [method] if method is not None else []
