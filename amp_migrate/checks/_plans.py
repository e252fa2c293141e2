"""What the migrator would do with the loops of a program, asked once."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from amp_migrate.config import Settings
from amp_migrate.model.autocast.regions import NEW, OLD
from amp_migrate.model.budget import (
    BudgetEndedError,
    at_most,
    for_program,
    given_up,
)
from amp_migrate.model.files.linking import LinkedProgram
from amp_migrate.model.files.neighbours import Neighbours, reading_at_most
from amp_migrate.model.program import Program
from amp_migrate.model.values.kinds import SCALERS
from amp_migrate.project import nearby
from amp_migrate.project.errors import SourceError
from amp_migrate.project.text import decode
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.outcome import LoopOutcome
    from amp_migrate.planner.files.file_plan import Plan
    from amp_migrate.planner.plan import Planner

_MOST_FILES = 24
_ROUNDS = 4
_MOST_TEXT = 400_000
_MOST_READ = 160_000
"""Text of files that these lead to: a library of models may lead to all of it."""
_TOO_MUCH = "too-many-paths"
AMP_NAMES = (*NEW, *OLD, *SCALERS)
_PLANS: WeakKeyDictionary[Program, tuple[Settings, Planned]] = (
    WeakKeyDictionary()
)


class Planned(NamedTuple):
    """What the planner decides about a program."""

    loops: list[LoopOutcome]
    others: tuple[str, ...]
    """Other files, by resolved path, that it would rewrite together with this one."""


def related_files(program: Program, settings: Settings) -> list[str]:
    """Other files that the loops of a program are migrated with, if at all, relative to it."""
    folder = Path(program.module.path).parent
    return [
        os.path.relpath(file, folder)
        for file in _planned(program, settings).others
    ]


def planned_loops(
    program: Program, settings: Settings
) -> Iterator[tuple[ast.Call, LoopOutcome]]:
    """Each loop's first backward call, and what the planner decides about it."""
    if "backward" not in program.module.text:
        return
    calls = {
        (call.lineno, scope.qualname): call
        for scope in program.module.scopes.values()
        for call in scope.calls
        if isinstance(call.func, ast.Attribute)
        and "backward" in call.func.attr
        or isinstance(call.func, ast.Name)
        and call.func.id == "backward"
    }
    if not all(_says_amp(program, call) for call in calls.values()):
        yield from _matched(calls, _planned(program, settings).loops)


def _says_amp(program: Program, call: ast.Call) -> bool:
    """Whether the scope of a backward names AMP itself, so that no planner is needed to see that it
    is used there.

    A framework's backward (`accelerator.backward(loss)`) is judged by the planner all the same.
    """
    if call.args or call.keywords:
        return False
    scope = program.module.scope_of(call)
    return any(use.scope is scope for use in program.uses.of(*AMP_NAMES))


def _matched(
    calls: dict[tuple[int, str], ast.Call], loops: list[LoopOutcome]
) -> Iterator[tuple[ast.Call, LoopOutcome]]:
    for loop in loops:
        call = calls.get((loop.line, loop.scope))
        if call is not None:
            yield call, loop


def _planned(program: Program, settings: Settings) -> Planned:
    """What would be planned; asked once for a program and its settings."""
    held = _PLANS.get(program)
    if held is not None and held[0] == settings:
        return held[1]
    planned = _found(program, settings)
    if any(loop.reason == _TOO_MUCH for loop in planned.loops):
        given_up(program).append("loop-without-amp")
    _PLANS[program] = (settings, planned)
    return planned


def _found(program: Program, settings: Settings) -> Planned:
    """What is decided with the tree at hand. Where that leaves all loops alone for what other
    files hold, those are asked for only if the loops could be migrated but for that.
    """
    from amp_migrate.planner.plan import planned

    planner, plans = planned(program, settings, project=program.project)
    loops = _loops(plans)
    if planner.held_back and not _is_any_migrated(loops):
        _, plans = planned(program, settings)
        loops = _loops(plans)
    if not _is_any_migrated(loops) or (
        _stands_alone(program) and not planner.company
    ):
        return Planned(loops, ())
    try:
        with reading_at_most(_MOST_READ):
            seeing = _seeing(program)
            asking, plans = planned(
                seeing, settings, project=program.project, hold=True
            )
    except BudgetEndedError:
        return Planned([], ())
    needed = tuple(asking.company | planner.company)
    if not needed:
        return Planned(_loops(plans), ())
    joint = _in_company(program, needed, planned, settings)
    return Planned(joint, tuple(planner.company))


def _stands_alone(program: Program) -> bool:
    """Whether a file of the tree imports no other one."""
    file = os.path.realpath(program.module.path)
    return program.project is not None and not program.project.imports.get(file)


def _seeing(program: Program) -> Program:
    """The same module as the migrator sees it, with the files that it imports."""
    module = program.module
    return Program(module.text, module.path, Neighbours(module.path))


def _loops(plans: Mapping[str, Plan]) -> list[LoopOutcome]:
    return [loop for plan in plans.values() for loop in plan.loops]


def _is_any_migrated(loops: list[LoopOutcome]) -> bool:
    return any(loop.status == "migrated" for loop in loops)


def _in_company(
    program: Program,
    others: tuple[str, ...],
    planned: Callable[..., tuple[Planner, Mapping[str, Plan]]],
    settings: Settings,
) -> list[LoopOutcome]:
    """What the planner decides where it sees the other files as well, and those that these ask
    for, which may use AMP for these loops; nothing where that is too much to read, or has no end.
    All rounds together may cost what the last of them may.
    """
    path, spent = program.module.path, 0
    texts = {path: program.module.text}
    loops: list[LoopOutcome] = []
    company = others
    for _ in range(_ROUNDS):
        held = {*texts, os.path.realpath(path)}
        more = {file: _text(file) for file in company if file not in held}
        if not more:
            return loops
        texts |= more
        length = sum(map(len, texts.values()))
        if len(texts) > _MOST_FILES or length > _MOST_TEXT:
            return []
        try:
            steps = for_program(texts) - spent
            with reading_at_most(_MOST_READ), at_most(steps) as budget:
                before = budget.left
                joint = LinkedProgram(texts)
                asking, _ = planned(joint, settings, project=program.project)
                _, plans = planned(joint, settings)
                loops, company = plans[path].loops, tuple(asking.company)
                spent += before - budget.left
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
        except BudgetEndedError:
            return []
    return []


def _text(file: str) -> str:
    data = nearby.text_of(file)
    try:
        return decode(data, file).text if data is not None else ""
    except SourceError:
        return ""
