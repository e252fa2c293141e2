"""A framework's trainer is made for float32, and the framework could switch AMP on by itself."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.autocast.frameworks import Setting, framework_settings
from amp_migrate.model.program import Program
from amp_migrate.rewrite.edits import AddImport, Edit

RULE = Rule(
    "framework-without-amp",
    severity="info",
    default=False,
    without_amp=True,
    by_file=True,
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """One finding for each trainer whose precision is float32, by a literal or by default."""
    for setting in framework_settings(program):
        if setting.state == "off":
            more = f"; {setting.obstacle}" if setting.obstacle else ""
            message = (
                f"{setting.framework.name} runs this loop in float32; switch AMP on with "
                f"{setting.advice}{more}"
            )
            yield finding_at(
                program,
                setting.call,
                RULE,
                message,
                fix=_fix(program, setting, settings),
            )


def _fix(program: Program, setting: Setting, settings: Settings) -> Fix | None:
    from amp_migrate.planner.preconditions.frameworks import setting_edits

    known = program.module.imports.local("torch")
    edits: tuple[Edit, ...] = setting_edits(setting, settings, known or "torch")
    if not edits:
        return None
    if known is None and any("torch." in repr(edit) for edit in edits):
        edits = (*edits, AddImport("torch"))
    return Fix(
        "unsafe",
        "train in mixed precision where there is a GPU: results there change",
        edits,
    )
