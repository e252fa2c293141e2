"""AMP that is there already: old spellings become those of today, and half-done AMP is completed by the lint's safe fixes."""

from __future__ import annotations

import dataclasses
import re

from amp_migrate.config import Settings
from amp_migrate.outcome import FileOutcome, Note

SPELLINGS = ("deprecated-cuda-amp", "rename-changes-nested-dtype", "deprecated-state-getters")
"""Rules whose fixes say the same thing in another way; the result is proved to be the same program."""
REPAIRS: tuple[str, ...] = (
    "custom_fwd-missing-device_type",
    "device_type-with-index-or-object",
    "positional-args-in-GradScaler",
    "positional-enabled-in-autocast",
)
"""Rules whose fixes mend what is wrong or not complete."""

_NAMED = re.compile(r"autocast|GradScaler|custom_[fb]wd")


def repaired(outcome: FileOutcome, text: str, settings: Settings) -> FileOutcome:
    """`outcome` with the AMP that `text`, or the migrator's output, had before: respelled and completed.

    A file whose AMP changes is `migrated`, though no loop of it may be. Each fix is told in a note.
    """
    start = text if outcome.output is None else outcome.output
    if outcome.status == "failed" or _NAMED.search(text) is None:
        return outcome
    new, notes = respelled(start, outcome.path, settings)
    new, more = completed(new, outcome.path, settings)
    if new == start:
        return outcome
    return dataclasses.replace(outcome, status="migrated", notes=(*outcome.notes, *notes, *more), output=new)


def respelled(text: str, path: str, settings: Settings) -> tuple[str, list[Note]]:
    """`text` with the names of `torch.amp`, where that is provably the same program."""
    from amp_migrate.guard.respelling import same_amp

    new, notes = _fixed(text, path, settings, SPELLINGS)
    return (new, notes) if new == text or same_amp(text, new) else (text, [])


def completed(text: str, path: str, settings: Settings) -> tuple[str, list[Note]]:
    """`text` with what its AMP lacks."""
    return _fixed(text, path, settings, REPAIRS)


def _fixed(text: str, path: str, settings: Settings, rules: tuple[str, ...]) -> tuple[str, list[Note]]:
    """What the safe fixes of some rules make of `text`; ignored findings stay, and no fix may bring in an error."""
    from amp_migrate.lint.fixing import fix

    ignored = set(settings.ignore)
    only = settings._replace(select=tuple(r for r in rules if r not in ignored), extend_select=())
    if not only.select:
        return text, []
    fixed = fix(text, path, only, unsafe=False)
    notes = [Note(f.line, f.column, f"{f.rule}: {f.fix.message}") for f in fixed.applied if f.fix is not None]
    return fixed.text, notes
