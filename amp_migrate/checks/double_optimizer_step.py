"""The optimizer steps twice with the same gradients: by the scaler and by itself, or by the scaler
alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._guarded_backwards import unfed_steps
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("double-optimizer-step", severity="error", without_amp=True)

_BY_ITSELF = (
    "the scaler steps this optimizer already: each batch makes two updates, and the second applies "
    "the infinities that the scaler kept out; delete the plain step"
)
_BY_SCALER = (
    "no backward runs between the scaler's last step of this optimizer and this call: its "
    "gradients are divided by the scale again, so that they all but vanish; run backward before "
    "it, or delete it"
)
_GUARDED = (
    "where the guard leaves the backward out, the scaler steps with the gradients of the batch "
    "before once more, divided by the scale again; skip the step, too: a bad loss needs no guard, "
    "since the scaler skips its step"
)


def check(
    program: Program,
    settings: Settings,
) -> Iterator[Finding]:
    """Find second steps with gradients that the scaler has stepped with."""
    yield from broken(program, RULE, _told, _delete, "delete the plain step")
    for call in unfed_steps(program, cleared=False):
        yield finding_at(program, call, RULE, _GUARDED)


def _told(mistake: Mistake) -> str:
    return _BY_SCALER if _is_by_scaler(mistake) else _BY_ITSELF


def _is_by_scaler(mistake: Mistake) -> bool:
    return bool(mistake.optimizer)


def _delete(
    code: Code,
    mistake: Mistake,
) -> tuple[Edit, ...] | None:
    if _is_by_scaler(mistake):
        return None
    same_block = mistake.related and code.is_here(mistake.related[0][0])
    if not code.alone() or not (same_block or code.block() is not None):
        return None
    return (
        (code.remove(code.statement),)
        if not _after_branches(code, mistake)
        else None
    )


def _after_branches(
    code: Code,
    mistake: Mistake,
) -> bool:
    """The plain step also serves a branch without AMP."""
    if not mistake.related or not code.is_here(mistake.related[0][0]):
        return False
    other = code.module.statement_of(mistake.related[0][0])
    return code.block(other) is not code.block()
