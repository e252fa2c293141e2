"""AMP that is there already: old spellings become those of today, and half-done AMP is completed
by the lint's safe fixes.
"""

from __future__ import annotations

import dataclasses
import re

from amp_migrate.checks._finding import CURRENT_TORCH, Finding
from amp_migrate.config import Settings
from amp_migrate.outcome import COMPLETED, FileOutcome, LoopOutcome, Note
from amp_migrate.pipeline.lint.fix import fix
from amp_migrate.rewrite.proof.respelling import same_amp

SPELLINGS = (
    "deprecated-cuda-amp",
    "rename-changes-nested-dtype",
    "deprecated-state-getters",
)
"""Rules whose fixes say the same thing in another way; the result is proved to be the same
program.
"""
REPAIRS: tuple[str, ...] = (
    "autocast-not-called",
    "backward-inside-autocast",
    "bare-optimizer-step",
    "bare-step-after-unscale",
    "bf16-to-numpy",
    "clip-without-unscale",
    "custom_fwd-bwd-unpaired",
    "custom_fwd-missing-device_type",
    "device_type-with-index-or-object",
    "disable-wrong-device",
    "double-optimizer-step",
    "double-or-stray-update",
    "double-unscale",
    "dtype-strict-inplace",
    "fp16-without-scaler",
    "loop-inside-autocast",
    "missing-scaler-update",
    "n-critic-steps-one-update",
    "nan-guard-skips-update",
    "nested-disable-without-float",
    "positional-args-in-GradScaler",
    "positional-enabled-in-autocast",
    "scaler-state-not-checkpointed",
    "step-inside-autocast",
    "unscale-after-clip",
    "unscale-each-micro-batch",
    "unscaled-backward-with-scaler-step",
    "update-between-optimizers",
    "update-not-on-every-path",
    "update-while-accumulating",
)
"""Rules whose fixes mend what is wrong or not complete."""

_NAMED = re.compile(r"autocast|GradScaler|custom_[fb]wd")


def repaired(
    outcome: FileOutcome, text: str, settings: Settings
) -> FileOutcome:
    """`outcome` with the AMP that `text`, or the migrator's output, had before: respelled and
    completed.

    A file whose AMP changes is `migrated`, though no loop of it may be. What is done is told in
    notes. The cells of a notebook stay as they are: `lint` tells of each by itself.
    """
    start = text if outcome.output is None else outcome.output
    if (
        outcome.status == "failed"
        or _NAMED.search(text) is None
        or outcome.path.endswith(".ipynb")
    ):
        return outcome
    new, notes = respelled(start, outcome.path, settings)
    new, mended = completed(new, outcome.path, settings)
    if new == start:
        return outcome
    notes += [_note(finding) for finding in mended]
    loops = tuple(_told(loop, mended) for loop in outcome.loops)
    return dataclasses.replace(
        outcome,
        status="migrated",
        loops=loops,
        notes=(*outcome.notes, *notes),
        output=new,
    )


def _told(loop: LoopOutcome, mended: list[Finding]) -> LoopOutcome:
    """A loop with AMP that lacked something counts as migrated, and says what was completed."""
    begun = (
        loop.status == "migrated"
        and loop.message is not None
        and loop.message.startswith(COMPLETED)
    )
    if loop.reason != "already-amp" and not begun:
        return loop
    own = [
        f
        for f in mended
        if f.scope == loop.scope or f.scope.startswith(f"{loop.scope}.")
    ]
    done = dict.fromkeys(
        f"{f.rule} ({f.fix.message})" for f in own if f.fix is not None
    )
    if not done:
        return loop
    said = f"{loop.message}, " if begun else COMPLETED
    return dataclasses.replace(
        loop, status="migrated", reason=None, message=said + ", ".join(done)
    )


def respelled(
    text: str, path: str, settings: Settings
) -> tuple[str, list[Note]]:
    """`text` with the names of `torch.amp`, where the project says that its torch has them and
    that is provably the same program.
    """
    if settings.target_torch is None:
        return text, []
    new, done = _fixed(text, path, settings, SPELLINGS)
    notes = [_note(finding) for finding in done]
    return (new, notes) if new == text or same_amp(text, new) else (text, [])


def completed(
    text: str, path: str, settings: Settings
) -> tuple[str, list[Finding]]:
    """`text` with what its AMP lacks, and what was found."""
    return _fixed(text, path, settings, REPAIRS)


def _fixed(
    text: str, path: str, settings: Settings, rules: tuple[str, ...]
) -> tuple[str, list[Finding]]:
    """What the safe fixes of some rules make of `text`; ignored findings stay, and no fix may
    bring in an error. Where the project does not say its oldest torch, the names of today are
    written, as everywhere in a migration.
    """
    ignored = set(settings.ignore)
    only = settings._replace(
        select=tuple(r for r in rules if r not in ignored),
        extend_select=(),
        target_torch=settings.target_torch or CURRENT_TORCH,
    )
    if not only.select:
        return text, []
    fixed = fix(text, path, only, unsafe=False)
    return fixed.text, list(fixed.applied)


def _note(finding: Finding) -> Note:
    return Note(
        finding.line,
        finding.column,
        f"{finding.rule}: {finding.fix.message if finding.fix else ''}",
        kind="done",
    )
