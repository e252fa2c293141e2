"""Loops that a framework runs: told which setting switches AMP on, and, with `--unsafe`,
given it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from amp_migrate.config import Settings
from amp_migrate.model.frameworks import Setting, framework_settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Module, Scope
from amp_migrate.outcome import LoopOutcome
from amp_migrate.planner.preconditions import framework_backwards
from amp_migrate.rewrite.edits import (
    AddArgument,
    Edit,
    ReplaceExpression,
    Template,
)
from amp_migrate.rewrite.proof.settings import Changed
from amp_migrate.torch_facts.frameworks import FRAMEWORKS


@dataclass(frozen=True)
class Switched:
    """What to change in one file to switch a framework's AMP on, and how the guard knows
    it again.
    """

    setting: Setting
    edits: tuple[Edit, ...]
    changes: tuple[Changed, ...]


def framework_loops(
    program: Program, settings: Settings
) -> Iterator[tuple[Scope, LoopOutcome]]:
    """Every loop that a framework runs: where it calls the framework's backward, else where its
    trainer is made.
    """
    made = framework_settings(program)
    told: set[tuple[str, str]] = set()
    for scope, call, name in framework_backwards(program):
        setting = next(
            (
                s
                for s in made
                if s.framework.name == name and s.scope.module is scope.module
            ),
            None,
        )
        told.add((scope.module.path, name))
        yield (
            scope,
            _outcome(call, scope, setting, settings)
            if setting
            else _elsewhere(call, scope, name),
        )
    for setting in made:
        if (
            setting.scope.module.path,
            setting.framework.name,
        ) not in told and not _may_only_infer(setting):
            yield (
                setting.scope,
                _outcome(setting.call, setting.scope, setting, settings),
            )


def _may_only_infer(setting: Setting) -> bool:
    """An `Accelerator(mixed_precision=args.mixed_precision)` without a backward: the loop is
    elsewhere, or there is none.
    """
    return setting.state == "open" and setting.framework.name in (
        "accelerate",
        "Fabric",
    )


def switched(
    program: Program, file: Module, settings: Settings, torch: str
) -> Iterator[Switched]:
    """What `--unsafe` changes in a file."""
    for setting in framework_settings(program) if settings.unsafe else ():
        if setting.scope.module is file:
            changes = tuple(_changes(setting, settings, torch))
            if changes:
                yield Switched(
                    setting, tuple(_edits(setting, changes)), changes
                )


def setting_edits(
    setting: Setting, settings: Settings, torch: str
) -> tuple[Edit, ...]:
    """The edits that switch AMP on in one place; `torch` is the file's name for torch."""
    return tuple(_edits(setting, tuple(_changes(setting, settings, torch))))


def _elsewhere(call: ast.Call, scope: Scope, name: str) -> LoopOutcome:
    advice = next(f.setting for f in FRAMEWORKS if f.name == name)
    message = f"{name} runs this loop; switch AMP on with {advice}"
    return LoopOutcome(
        call.lineno, scope.qualname, "refused", "framework-loop", message
    )


def _outcome(
    call: ast.Call, scope: Scope, setting: Setting, settings: Settings
) -> LoopOutcome:
    name, line, here = setting.framework.name, call.lineno, setting.call is call
    where = "" if here else f" in line {setting.call.lineno}"
    if setting.state == "on":
        return LoopOutcome(
            line,
            scope.qualname,
            "skipped",
            "already-amp",
            f"{name} runs it with {setting.shown}{where}",
        )
    if setting.state == "cpu":
        return LoopOutcome(
            line,
            scope.qualname,
            "skipped",
            "cpu-only",
            f"{name} is told to stay on the CPU{where}",
        )
    offered = setting.values(settings.dtype, "torch")
    if offered and settings.unsafe:
        shown = ", ".join(
            f"{key}={value}" if value else f"{key}()"
            for key, value in offered.items()
        )
        return LoopOutcome(
            line,
            scope.qualname,
            "migrated",
            None,
            f"{name} runs it: {shown}{where}",
        )
    decided = (
        f"its precision is decided by {setting.shown}; "
        if setting.state == "open"
        else ""
    )
    more = (
        f"; {setting.obstacle}"
        if setting.obstacle
        else " (--unsafe writes it)"
        if offered
        else ""
    )
    message = f"{name} runs this loop; {decided}switch AMP on with {setting.advice}{where}{more}"
    return LoopOutcome(
        line, scope.qualname, "refused", "framework-loop", message
    )


def _changes(
    setting: Setting, settings: Settings, torch: str
) -> Iterator[Changed]:
    callee = ast.unparse(setting.call.func)
    for key, value in setting.values(settings.dtype, torch).items():
        if not value:
            yield Changed(callee, f".{key}()")
        else:
            old = setting.given.get(key)
            yield Changed(
                callee,
                f"{key}={value}",
                f"{key}={ast.unparse(old.value)}" if old is not None else "",
            )


def _edits(setting: Setting, changes: tuple[Changed, ...]) -> Iterator[Edit]:
    span = setting.scope.module.span
    for change in changes:
        key, _, value = change.new.partition("=")
        if not value:
            yield ReplaceExpression(
                span(setting.call),
                Template(f"$0{change.new}", (span(setting.call),)),
            )
        elif key in setting.given:
            yield ReplaceExpression(
                span(setting.given[key].value), Template(value)
            )
        else:
            yield AddArgument(span(setting.call), key, value)


__all__ = ["Switched", "framework_loops", "setting_edits", "switched"]
