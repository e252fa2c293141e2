"""A loop trains under float16 autocast without a GradScaler."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._regions import Region, region_of, regions, without_gradients
from amp_migrate.config import Settings
from amp_migrate.edits import Edit
from amp_migrate.lint.finding import CURRENT_TORCH, Finding, Fix, Rule, finding_at
from amp_migrate.model.kinds import Kind
from amp_migrate.model.mistakes import events_of
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Function, Scope, shallow

RULE = Rule("fp16-without-scaler", severity="error")
_SCALES = re.compile(r"(?i)scaler|accelerat|lightning|deepspeed|fabric|colossalai|apex|ignite|mosaic|composer")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Ask for plain backward passes of losses from float16 regions, in a module without any scaler."""
    found = [
        r for r in regions(program) if r.dtype == "float16" and not r.off and not without_gradients(program, r.call)
    ]
    if not found or _SCALES.search(program.module.text):
        return
    events = events_of(program)
    message = "float16 gradients below 6e-8 become zero; scale the loss with a GradScaler, or use bfloat16"
    for scope in program.module.scopes.values():
        calls = [c for c in scope.calls if events.what(c, scope) == "backward"]
        steps = [c for c in scope.calls if events.what(c, scope) == "bare-step"]
        for call in calls if steps else ():
            region = _source(program, call, scope, found)
            if region is not None:
                fix = _fix(program, call, steps[0], region, settings) if len(calls) == len(steps) == 1 else None
                yield finding_at(program, call, RULE, message, related=[(region.place, "float16 here")], fix=fix)


def _source(program: Program, call: ast.Call, scope: Scope, found: list[Region]) -> Region | None:
    """The region in which the loss, or something that it was computed from, was made."""
    if not isinstance(call.func, ast.Attribute):
        return None
    statement = program.module.statement_of(call)
    from amp_migrate.migrate.flow import Flow  # the migrator takes long to import, and few files come here

    nodes: list[ast.AST] = [
        call.func.value,
        *(step.statement for step in Flow(scope, program).slice(call.func.value, statement)),
    ]
    for node in nodes:
        region = region_of(program, node)
        if region in found:
            return region
        for inner in shallow(node):
            function = program.values.callee(inner, scope) if isinstance(inner, ast.Call) else None
            region = _inside(program, function, found) if function is not None else None
            if region is not None:
                return region
    return None


def _inside(program: Program, function: Function, found: list[Region]) -> Region | None:
    return next((r for r in found if r.scope.node is function), None)


def _fix(program: Program, call: ast.Call, step: ast.Call, region: Region, settings: Settings) -> Fix | None:
    """Where the optimizer is made in this scope, the scaler is made behind it, with the region's switch."""
    code = Code(program, call)
    optimizer = receiver(step)
    value = program.values.of(optimizer, code.scope)
    home = code.scope.lookup(optimizer.id) if isinstance(optimizer, ast.Name) else None
    bindings = home.bindings[optimizer.id] if home is not None and isinstance(optimizer, ast.Name) else []
    torch = program.module.imports.local("torch")
    if home is not code.scope or len(bindings) != 1 or value.kind is not Kind.OPTIMIZER or torch is None:
        return None
    made, switch = bindings[0].statement, region.argument("enabled")
    if not isinstance(made, ast.Assign) or "scaler" in program.module.identifiers:
        return None
    enabled = f"enabled={code.source(switch)}" if switch is not None else ""
    is_old = (settings.target_torch or CURRENT_TORCH) < (2, 4)
    scaler = (
        f"{torch}.cuda.amp.GradScaler({enabled})"
        if is_old
        else f'{torch}.amp.GradScaler("cuda"{", " + enabled if enabled else ""})'
    )
    loss = receiver(call)
    edits: tuple[Edit, ...] = (
        code.add_after(made, f"scaler = {scaler}"),
        code.replace(loss, "scaler.scale($0)", loss),
        code.replace(step, "scaler.step($0)", optimizer),
        code.add_after(program.module.statement_of(step), "scaler.update()"),
    )
    return Fix("safe", "add a GradScaler", edits)
