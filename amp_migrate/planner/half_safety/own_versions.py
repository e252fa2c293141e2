"""Functions of other files, as the program itself has them where those files are linked."""

from __future__ import annotations

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function
from amp_migrate.project.import_paths import resolved


def own_version(
    program: Program, home: Program, function: Function
) -> tuple[Program, Function]:
    """A function as the program itself has it, if its file is one of the program's."""
    if home is program:
        return home, function
    place = (resolved(home.module.path), function.lineno, function.name)
    mine = program.remembered(own_version, lambda: _by_place(program))
    return (program, mine[place]) if place in mine else (home, function)


def _by_place(program: Program) -> dict[tuple[str, int, str], Function]:
    paths = {file: resolved(file.path) for file in program.module.files}
    return {
        (paths[scope.module], node.lineno, node.name): node
        for node, scope in program.module.scopes.items()
        if isinstance(node, FUNCTIONS)
    }
