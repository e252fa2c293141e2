"""Only one of `custom_fwd` and `custom_bwd` is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function
from amp_migrate.planner.half_safety.autograd_functions import (
    BACKWARD,
    FORWARD,
    Custom,
    decorate,
    decorator,
    functions,
)

RULE = Rule("custom_fwd-bwd-unpaired", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find one decorator without the other, and for `custom_fwd` where there is no `ctx`."""
    if "custom_" not in program.module.text:
        return
    for custom in functions(program):
        yield from _of_function(program, custom)
    for node, scope in program.module.scopes.items():
        mark = (
            decorator(program, node, FORWARD)
            if isinstance(node, FUNCTIONS)
            else None
        )
        owner = scope.owner
        if (
            mark is not None
            and owner is not None
            and isinstance(owner.node, ast.ClassDef)
        ):
            if any(
                program.canonical(b) == "torch.nn.Module"
                for c in program.graph.lineage(owner.node)
                for b in c.bases
            ):
                yield finding_at(
                    program,
                    mark,
                    RULE,
                    "`custom_fwd` belongs on the forward of a torch.autograd.Function; this is an "
                    "nn.Module, where it has no use: take it off",
                )


def _of_function(program: Program, custom: Custom) -> Iterator[Finding]:
    forward, backward = custom.method("forward"), custom.method("backward")
    if forward is None or backward is None:
        return
    there = decorator(program, forward, FORWARD)
    back = decorator(program, backward, BACKWARD)
    if there is not None and custom.method("setup_context") is not None:
        yield finding_at(
            program,
            there,
            RULE,
            (
                "with setup_context the first argument is a tensor, not ctx, and the backward pass "
                "fails; drop both decorators"
            ),
        )
    elif there is not None and back is None:
        yield finding_at(
            program,
            there,
            RULE,
            "backward lacks `custom_bwd`: it computes in other types than forward did; "
            "decorate it with `custom_bwd`",
            fix=_twin(program, there, backward, "custom_bwd"),
        )
    elif back is not None and there is None:
        message = (
            "forward lacks `custom_fwd`, so backward raises `object has no attribute "
            "'_fwd_used_autocast'`"
        )
        yield finding_at(
            program,
            back,
            RULE,
            message,
            fix=_twin(program, back, forward, "custom_fwd"),
        )


def _twin(
    program: Program, mark: ast.expr, method: Function, name: str
) -> Fix | None:
    """The same spelling, with the other name; only the device type is taken over."""
    func = mark.func if isinstance(mark, ast.Call) else mark
    if decorator(program, method, FORWARD | BACKWARD) is not None:
        return None  # the wrong one of the two
    if (
        not isinstance(func, ast.Attribute)
        or method.body[0].lineno == method.lineno
    ):
        return None
    text = f"{program.module.source(func.value)}.{name}"
    if isinstance(mark, ast.Call):
        device = next(
            (
                program.module.source(k.value)
                for k in mark.keywords
                if k.arg == "device_type"
            ),
            None,
        )
        text += f"(device_type={device})" if device is not None else ""
    return Fix("safe", f"add `{name}`", (decorate(program, method, text),))
