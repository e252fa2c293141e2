"""Loops that a framework runs: told which setting switches AMP on, and, with `--unsafe`,
given it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from amp_migrate.config import Settings
from amp_migrate.model.autocast.frameworks import Setting, framework_settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.outcome import LoopOutcome, LoopStatus
from amp_migrate.planner.preconditions.checks import framework_backwards
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
    here = setting.call is call
    where = "" if here else f" in line {setting.call.lineno}"
    status, reason, message = _verdict(setting, settings, where)
    return LoopOutcome(call.lineno, scope.qualname, status, reason, message)


def _verdict(
    setting: Setting, settings: Settings, where: str
) -> tuple[LoopStatus, str | None, str]:
    """What becomes of a loop that a framework runs with a setting, which is made `where`."""
    name = setting.framework.name
    if setting.state == "on":
        message = f"{name} runs it with {setting.shown}{where}"
        return "skipped", "already-amp", message
    if setting.state == "cpu":
        message = f"{name} is told to stay on the CPU{where}"
        return "skipped", "cpu-only", message
    offered = setting.values(settings.dtype, "torch")
    if offered and settings.unsafe:
        shown = ", ".join(
            f"{key}={value}" if value else f"{key}()"
            for key, value in offered.items()
        )
        return "migrated", None, f"{name} runs it: {shown}{where}"
    message = _advice(setting, where, bool(offered))
    return "refused", "framework-loop", message


def _advice(setting: Setting, where: str, is_offered: bool) -> str:
    """How to switch AMP on by hand."""
    decided = f"its precision is decided by {setting.shown}; "
    more = " (--unsafe writes it)" if is_offered else ""
    more = f"; {setting.obstacle}" if setting.obstacle else more
    return (
        f"{setting.framework.name} runs this loop; "
        f"{decided if setting.state == 'open' else ''}"
        f"switch AMP on with {setting.advice}{where}{more}"
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
    """The changes of a setting's arguments, each where it stands."""
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
