"""Models, losses and functions of a region that come out of files which Python cannot parse: the
program does not start, and what they compute was not read.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_migrate.model.calls.targets import makers
from amp_migrate.model.files.neighbours import Unparsed
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.planner.half_safety.reach import reachable
from amp_migrate.planner.refusal import Refusal


def refuse_unparsed_imports(
    program: Program, regions: Iterable[tuple[Scope, list[ast.stmt]]]
) -> None:
    """Raises Refusal."""
    for scope, statements in regions:
        for node, where in reachable(program, statements, scope):
            if not isinstance(node, ast.Call):
                continue
            for name in _names(program, node, where):
                found = _unparsed(program, name)
                if found is not None:
                    said = _message(where.module, name, found)
                    raise Refusal("syntax", node, said)


def _names(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[ast.expr]:
    """What a call is known by, and what makes the object that it calls."""
    yield call.func
    if program.canonical(call.func) is None:
        yield from (
            one
            for one in makers(program, call.func, scope)
            if isinstance(one, ast.expr) and one in program.module.parents
        )


def _unparsed(program: Program, name: ast.expr) -> Unparsed | None:
    scope = program.module.scope_of(name)
    near, canonical = scope.module.neighbours, program.canonical(name)
    if near is None or canonical is None or canonical.startswith("torch."):
        return None
    if not program.reaching.imported.is_import(name, scope):
        return None
    return near.unparsed(canonical)


def _message(file: Module, name: ast.expr, found: Unparsed) -> str:
    folder = Path(file.path).absolute().parent
    path = os.path.relpath(found.path, folder)
    return (
        f"`{ast.unparse(name)}` is imported from {path}, which does not parse (line {found.line}: "
        f"{found.said}): the program does not start, and what it computes was not read"
    )
