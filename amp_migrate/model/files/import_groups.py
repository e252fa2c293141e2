"""Which files of a program belong together: those that import each other, whichever way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amp_migrate.project.import_paths import (
    by_search_path,
    candidates,
    resolved,
)

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.syntax.module import Module

_AT_RUN_TIME = ("importlib", "__import__", "runpy", "sys.modules")


def beside(program: Program, file: Module) -> frozenset[Module]:
    """The files that imports lead to from a file, or from which they lead there; itself, too. All,
    where some are imported by names that are put together.
    """
    text = program.module.text
    if any(word in text for word in _AT_RUN_TIME):
        return frozenset(program.module.files)
    groups = program.remembered(beside, lambda: _groups(program))
    return next((one for one in groups if file in one), frozenset({file}))


def _groups(program: Program) -> list[frozenset[Module]]:
    groups: list[frozenset[Module]] = []
    files = {resolved(file.path): file for file in program.module.files}
    for file in files.values():
        mine = frozenset({file, *_imported(file, files)})
        near = [one for one in groups if one & mine]
        groups = [one for one in groups if not one & mine]
        groups.append(mine.union(*near))
    return groups


def _imported(file: Module, files: dict[str, Module]) -> list[Module]:
    imports = file.imports
    names = [*imports.names.values(), *imports.stars]
    names += [one for others in imports.others.values() for one in others]
    found = []
    for name in names:
        for dotted in (name, f"{name}.x"):
            paths = [path for path, _ in candidates(file.path, dotted)]
            searched = by_search_path(file.path, dotted, files)
            paths += [searched[0]] if searched else []
            found += [files[path] for path in paths if path in files]
    return found
