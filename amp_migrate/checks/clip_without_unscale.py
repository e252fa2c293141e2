"""Gradients are clipped while they are still scaled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.checks._framework_clips import framework_clips
from amp_migrate.checks._protocol import broken
from amp_migrate.config import Settings
from amp_migrate.model.gradients.hooks import bounding_hooks
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.protocol.broken import Mistake
from amp_migrate.rewrite.edits import Edit

RULE = Rule("clip-without-unscale", severity="error", without_amp=True)

_HOOK = (
    "hooks see gradients that still carry the scaler's factor (65,536 at first), so the bound cuts "
    "nearly all of them; clip after `scaler.unscale_(optimizer)` instead"
)
_FRAMEWORK = (
    "the framework scales the gradients in float16, and here they still carry its factor (65,536 "
    "at first), so nearly nothing is left of them after clipping; clip with `{}`"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find clipping of scaled gradients."""
    message = (
        "the gradients still carry the scaler's factor here (65,536 at first), so nearly nothing "
        "is left of them after clipping; "
        "call `scaler.unscale_(optimizer)` before clipping"
    )
    yield from broken(
        program, RULE, message, unscale_first, "unscale before clipping"
    )
    for call, setting in framework_clips(program):
        how = _FRAMEWORK.format(setting.framework.clipper)
        yield finding_at(program, call, RULE, how)
    if "register_hook" in program.module.text and _scales(program):
        for call in bounding_hooks(program):
            yield finding_at(program, call, RULE, _HOOK)


def _scales(program: Program) -> bool:
    """Whether a loss is scaled in this program."""
    what = program.events.what
    scopes = program.module.scopes.values()
    return any(
        what(call, s) is EventKind.SCALE for s in scopes for call in s.calls
    )


def unscale_first(code: Code, mistake: Mistake) -> tuple[Edit, ...] | None:
    """`scaler.unscale_(optimizer)` above the statement; under accumulation the statement moves to
    the step as well.
    """
    if _is_clipped_before(code, mistake):
        return None  # one `unscale_` above the first clip mends both
    steps = _about(code, mistake, code.calls(EventKind.SCALER_STEP))
    if (
        len(steps) != 1
        or not steps[0].args
        or _about(code, mistake, code.calls(EventKind.UNSCALE))
    ):
        return None
    step = code.module.statement_of(steps[0])
    text = f"{code.source(receiver(steps[0]))}.unscale_({code.source(steps[0].args[0])})"
    around = [
        a
        for a in code.module.ancestors(code.statement)
        if isinstance(a, ast.stmt)
    ]
    guards = [
        a
        for a in code.module.ancestors(step)
        if isinstance(a, ast.If) and a not in around
    ]
    if not guards:
        return (code.add_before(code.statement, text),)
    if code.guarded(
        code.after(code.statement), EventKind.SCALER_STEP
    ) is not step or not _accumulates(guards[-1], code):
        return None
    if not code.alone():
        return None
    moved = code.move_before(step, code.statement)
    return (code.add_before(step, text), *moved)


def _is_clipped_before(code: Code, mistake: Mistake) -> bool:
    """Whether the gradients were clipped further up in the same run."""
    module, what = code.module, code.events.what
    return any(
        what(place, module.scope_of(place)) is EventKind.CLIP
        for place, _ in mistake.related
    )


def _about(
    code: Code, mistake: Mistake, calls: list[ast.Call]
) -> list[ast.Call]:
    """Of several optimizers, the calls for the one whose gradients are clipped."""
    if mistake.optimizers == 1:
        return calls
    name = ast.dump(mistake.owner) if mistake.owner is not None else ""
    return [
        call for call in calls if call.args and ast.dump(call.args[0]) == name
    ]


def _accumulates(guard: ast.If, code: Code) -> bool:
    """The condition is not that of AMP: the gradients are cleared under it."""
    return (
        any(code.is_event(s, EventKind.ZERO_GRAD) for s in guard.body)
        and not guard.orelse
    )
