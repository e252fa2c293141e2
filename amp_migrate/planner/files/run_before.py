"""What a program runs without a condition before a loop, or on the way to it: the functions that
lead there, what they call, and what is run while the files are imported.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Module, Scope
from amp_migrate.planner.files.vicinity import callers_of_scope, files_near
from amp_migrate.project import nearby
from amp_migrate.project.import_paths import resolved, starts_used
from amp_migrate.project.module_graph import Project

_DEEP = 4
_MOST_FILES = 60
_BRANCHES = (ast.If, ast.IfExp, ast.ExceptHandler, ast.Match)


def mentions_near(program: Program, project: Project, word: str) -> bool:
    """Whether a file of the program, or one that it may import, holds a word."""
    if word in program.module.text:
        return True
    if project.imports:
        return bool(project.mentioning(word))
    first = program.module.files[0]
    return first.neighbours is not None and any(
        word.encode() in text
        for root in starts_used(first.path, first.imports.names.values())
        for _, text in nearby.below(root)
    )


def run_before(
    program: Program, scope: Scope
) -> Iterator[tuple[Program, ast.Call]]:
    """Calls that are run without a condition, each with the program of its file."""
    wanted = deque(_starts(program, scope))
    seen: set[ast.AST] = set()
    while wanted:
        where, home, is_main, deep = wanted.popleft()
        if home.node in seen:
            continue
        seen.add(home.node)
        for call in home.calls:
            parents = list(where.module.ancestors(call))
            if _is_conditional(parents, is_main):
                continue
            yield where, call
            for other, inner in _run_by(where, call, home) if deep else ():
                wanted.append((other, inner, False, deep - 1))


def _starts(
    program: Program, scope: Scope
) -> Iterator[tuple[Program, Scope, bool, int]]:
    """The functions on the way to the loop, and the modules that are read for it; with whether a
    module is the program that runs it.
    """
    scopes = program.module.scopes
    for node in (scope.node, *callers_of_scope(program, scope)):
        yield program, scopes[node], True, _DEEP
    files = files_near(program, scope)
    for file in files:
        yield program, file.root, False, _DEEP
    for other in _imported(files):
        yield other, other.module.root, False, _DEEP


def _imported(files: list[Module]) -> Iterator[Program]:
    """The other files of the project that are read while these are imported."""
    seen = {resolved(file.path) for file in files}
    wanted = deque(files)
    while wanted and len(seen) < _MOST_FILES + len(files):
        file = wanted.popleft()
        for other in _named_by(file):
            path = resolved(other.module.path)
            if path not in seen:
                seen.add(path)
                wanted.append(other.module)
                yield other


def _named_by(file: Module) -> Iterator[Program]:
    """The modules behind the names that a file imports, packages included."""
    near = file.neighbours
    names = [*file.imports.names.values(), *file.imports.stars]
    dotted = {
        ".".join(parts[:cut])
        for parts in (name.split(".") for name in names)
        for cut in range(1, len(parts) + 1)
    }
    for name in sorted(dotted) if near is not None else ():
        found = near.module(name) if near is not None else None
        if found is not None:
            yield found


def _run_by(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, Scope]]:
    """The functions and `__init__`s that a call runs, in this file or another."""
    for function in program.values.callees(call, scope):
        yield program, program.scope(function)
    made = program.graph.class_named(call.func, scope)
    found = (
        (program, made)
        if made is not None
        else program.values.abroad(call.func, scope)
    )
    if found is None:
        return
    other, one = found
    init = (
        other.graph.method(one, "__init__")
        if isinstance(one, ast.ClassDef)
        else one
    )
    if init is not None:
        yield other, other.scope(init)


def _is_conditional(parents: list[ast.AST], is_main: bool) -> bool:
    """Under an `if`, but for `if __name__ == "__main__":` of the program itself."""
    for one in parents:
        if isinstance(one, FUNCTIONS):
            return False
        if isinstance(one, _BRANCHES):
            test = one.test if isinstance(one, ast.If) else None
            is_guard = test is not None and "__name__" in ast.unparse(test)
            if not (is_main and is_guard):
                return True
    return False
