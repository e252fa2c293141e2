"""`torch.amp.custom_fwd` or `custom_bwd` is used without `device_type`."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._renames import is_decorator
from amp_migrate.config import Settings
from amp_migrate.model.naming.uses import Use
from amp_migrate.model.program import Program
from amp_migrate.rewrite.edits import Edit, ReplaceExpression, Template

RULE = Rule("custom_fwd-missing-device_type", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Decorators and calls of the new names that name no device type."""
    for use in program.uses.of("torch.amp.custom_fwd", "torch.amp.custom_bwd"):
        if use.call is None and not is_decorator(program, use.node):
            continue
        if use.call is not None and any(
            one.arg in ("device_type", None) for one in use.call.keywords
        ):
            continue
        if program.uses.is_guarded(use.node) or program.uses.is_shimmed(use):
            continue
        name = use.name.rpartition(".")[2]
        message = (
            f"this raises, since `{name}` of `torch.amp` needs a device type: write "
            f'`{name}(device_type="cuda")`'
        )
        fix = Fix(
            "safe",
            'name the device type that the old decorator meant, "cuda"',
            (_edit(program, use),),
        )
        yield finding_at(program, use.call or use.node, RULE, message, fix=fix)


def _edit(program: Program, use: Use) -> Edit:
    module = program.module
    if use.call is None:
        span = module.span(use.node)
        return ReplaceExpression(
            span, Template('$0(device_type="cuda")', (span,))
        )
    given = [("", one) for one in use.call.args] + [
        (f"{one.arg}=", one.value) for one in use.call.keywords
    ]
    said = [f"{name}${index}" for index, (name, _) in enumerate(given, 1)]
    positional = said[: len(use.call.args)]
    text = ", ".join(
        [*positional, 'device_type="cuda"', *said[len(positional) :]]
    )
    parts = (
        module.span(use.call.func),
        *(module.span(value) for _, value in given),
    )
    return ReplaceExpression(
        module.span(use.call), Template(f"$0({text})", parts)
    )
