"""A loop trains under float16 autocast without a GradScaler."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.checks._code import Code, receiver
from amp_migrate.checks._finding import (
    CURRENT_TORCH,
    Finding,
    Fix,
    Place,
    Rule,
    finding_at,
)
from amp_migrate.checks._loss_steps import loss_steps
from amp_migrate.checks._regions import (
    Region,
    region_of,
    regions,
    without_gradients,
)
from amp_migrate.checks._regions import steps as steps_made
from amp_migrate.checks._switched_scalers import switched_backwards
from amp_migrate.config import Settings
from amp_migrate.model.calls.targets import targets
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.recognition import Trait
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, shallow
from amp_migrate.model.syntax.queries import names_in
from amp_migrate.model.values.kinds import Kind
from amp_migrate.patterns import pattern
from amp_migrate.rewrite.edits import Edit

RULE = Rule("fp16-without-scaler", severity="error")
# Lightning and accelerate scale what they are handed (`self.manual_backward(loss)`), no plain
# `loss.backward()`; these may.
_SCALES = pattern(
    r"(?i)scaler|deepspeed|colossalai|apex|ignite|mosaic|composer"
)
_MADE = pattern(r"GradScaler\b(?!\s*,|\s*\)?[ \t]*(?:\n|$|#))")
"""The name of the class, but where an import ends."""


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find plain backward passes of losses from float16 regions, in a module without any
    scaler.
    """
    found = [
        r
        for r in regions(program)
        if "float16" in (r.dtypes or ())
        and not r.off
        and not without_gradients(program, r.call)
    ]
    events = program.events
    if found and events.scaler_scopes():
        yield from _switched_off(program, found)
    if (
        not found
        or _SCALES.search(_without_idle_scalers(program))
        or events.scaler_scopes()
    ):
        return
    for scope in program.module.scopes.values():
        yield from _in_scope(program, scope, found, settings)


_MESSAGE = (
    "float16 gradients below 6e-8 become zero; scale the loss with a GradScaler, or "
    "use bfloat16"
)


_SWITCHED = (
    "this scaler is off where its setting says so, but the autocast block is not, so that float16 "
    "gradients below 6e-8 become zero there; give both the same `enabled`"
)


def _switched_off(program: Program, found: list[Region]) -> Iterator[Finding]:
    always = [r for r in found if r.argument("enabled") is None]
    for call, scaled, scope in switched_backwards(program) if always else ():
        region = _source(program, scaled.args[0], call, scope, always)
        if region is not None:
            places = [(region.place, "float16 here")]
            yield finding_at(program, call, RULE, _SWITCHED, related=places)


def _in_scope(
    program: Program, scope: Scope, found: list[Region], settings: Settings
) -> Iterator[Finding]:
    """The backward passes of one scope that steps as well."""
    calls = _calls(program, scope, EventKind.BACKWARD)
    steps = _calls(program, scope, EventKind.BARE_STEP)
    is_one = len(calls) == len(steps) == 1
    is_stepped = bool(steps) or (
        calls
        and (_steps_outside(program, scope) or _steps_inside(program, scope))
    )
    for call in calls if is_stepped else ():
        func = call.func
        region = (
            _source(program, func.value, call, scope, found)
            if isinstance(func, ast.Attribute)
            else None
        )
        if region is None:
            continue
        is_sure = is_one and region.dtype == "float16"
        fix = (
            _fix(program, call, steps[0], region, settings) if is_sure else None
        )
        here = (region.place, "float16 here")
        places = [here, *_idle_scalers(program, scope)]
        yield finding_at(program, call, RULE, _MESSAGE, related=places, fix=fix)


def _steps_inside(program: Program, scope: Scope) -> bool:
    """Whether a function in sight steps that is called here: `optimizer.step()` of a class of the
    project.
    """
    return any(
        next(steps_made(program, one, scope), None) is not None
        for one in scope.body
    )


def _steps_outside(program: Program, scope: Scope) -> bool:
    """Whether who runs a function steps: its callers do, or the step itself runs it as a
    closure.
    """
    node = scope.node
    if not isinstance(node, FUNCTIONS):
        return False
    callers = {id(site.scope): site.scope for site in program.graph.sites(node)}
    if any(
        _calls(program, one, EventKind.BARE_STEP) for one in callers.values()
    ):
        return True
    return any(
        (dotted_name(given) or "").rpartition(".")[2] == node.name
        for one in program.module.scopes.values()
        for step in one.calls
        if isinstance(step.func, ast.Attribute) and step.func.attr == "step"
        for given in (*step.args, *(k.value for k in step.keywords))
    )


def _calls(program: Program, scope: Scope, kind: EventKind) -> list[ast.Call]:
    return [c for c in scope.calls if program.events.what(c, scope) is kind]


def _idle_scalers(program: Program, scope: Scope) -> list[tuple[Place, str]]:
    """The scalers that are made in the same function and that nothing uses."""
    return [
        (call, "a scaler that nothing uses")
        for call in scope.calls
        if program.events.what(call, scope) is EventKind.SCALER_CREATED
        and _idle_names(program, call)
    ]


def _without_idle_scalers(program: Program) -> str:
    """The text of the module without the scalers that are made in it and never used, or that are
    imported and not made.
    """
    text = program.module.text
    if "GradScaler" not in text:
        return text
    if not _MADE.search(text):
        return text.replace("GradScaler", "").replace("grad_scaler", "")
    names = [
        name
        for scope in program.module.scopes.values()
        for call in scope.calls
        if program.events.what(call, scope) is EventKind.SCALER_CREATED
        for name in _idle_names(program, call)
    ]
    words = "|".join(["GradScaler", "grad_scaler", *map(re.escape, names)])
    return re.sub(rf"\b({words})\b", "", text) if names else text


def _idle_names(program: Program, call: ast.Call) -> list[str]:
    """The name that a new scaler is kept under, where nothing reads it."""
    statement = program.module.parents[call]
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    name = (
        (dotted_name(target) or "").rpartition(".")[2]
        if target is not None
        else ""
    )
    return [name] if name and not program.attributes.is_read(name) else []


def _source(
    program: Program,
    loss: ast.expr,
    call: ast.Call,
    scope: Scope,
    found: list[Region],
) -> Region | None:
    """The region in which the loss, or something that it was computed from, was made."""
    statement = program.module.statement_of(call)
    nodes: list[ast.AST] = [loss, *loss_steps(program, loss, statement, scope)]
    for node in nodes:
        region = region_of(program, node)
        if region in found:
            return region
        for inner in shallow(node):
            if isinstance(inner, ast.Call):
                region = _inside(program, inner, scope, found)
                if region is not None:
                    return region
    return None


def _inside(
    program: Program, call: ast.Call, scope: Scope, found: list[Region]
) -> Region | None:
    """A region that stands in a function that a call runs, or is its decorator."""
    functions = targets(program, call, scope)
    return next(
        (r for r in found if r.scope.node in functions or r.node in functions),
        None,
    )


def _fix(
    program: Program,
    call: ast.Call,
    step: ast.Call,
    region: Region,
    settings: Settings,
) -> Fix | None:
    """The scaler is made behind the optimizer, with the region's switch, and unscales before
    gradients are read.
    """
    code = Code(program, call)
    optimizer, switch = receiver(step), region.argument("enabled")
    made = _made(program, optimizer, code.scope)
    torch = program.module.imports.local("torch")
    if made is None or torch is None or "scaler" in program.module.identifiers:
        return None
    unscale = _unscale(program, code.scope, step)
    if unscale is None or (
        switch is not None and not _stands(program, switch, code.scope, made)
    ):
        return None
    new = _constructor(torch, code.source(switch) if switch else "", settings)
    edits = _edits(code, call, step, made, new, unscale)
    target = settings.target_torch
    is_old = target is not None and target < (2, 4)
    since = None if is_old else (2, 4)
    return Fix("safe", "add a GradScaler", edits, since=since)


def _edits(
    code: Code,
    call: ast.Call,
    step: ast.Call,
    made: ast.stmt,
    new: str,
    unscale: list[ast.stmt],
) -> tuple[Edit, ...]:
    optimizer, loss = receiver(step), receiver(call)
    scaler = f"{_owner(optimizer)}scaler"
    unscaled = f"{scaler}.unscale_({code.source(optimizer)})"
    return (
        code.add_after(made, f"{scaler} = {new}"),
        code.replace(loss, f"{scaler}.scale($0)", loss),
        *(code.add_before(reader, unscaled) for reader in unscale),
        code.replace(step, f"{scaler}.step($0)", optimizer),
        code.add_after(
            code.program.module.statement_of(step), f"{scaler}.update()"
        ),
    )


def _owner(optimizer: ast.expr) -> str:
    """`self.` for `self.optimizer`, nothing for a name."""
    if not isinstance(optimizer, ast.Attribute):
        return ""
    owner = optimizer.value
    return f"{owner.id}." if isinstance(owner, ast.Name) else ""


def _constructor(torch: str, switch: str, settings: Settings) -> str:
    enabled = f"enabled={switch}" if switch else ""
    if (settings.target_torch or CURRENT_TORCH) < (2, 4):
        return f"{torch}.cuda.amp.GradScaler({enabled})"
    return f'{torch}.amp.GradScaler("cuda"{", " + enabled if enabled else ""})'


def _made(
    program: Program, optimizer: ast.expr, scope: Scope
) -> ast.stmt | None:
    """The one statement that makes the optimizer: in this scope, at module level, or in another
    method.
    """
    if isinstance(optimizer, ast.Name):
        home, name = scope.lookup(optimizer.id), optimizer.id
        if home not in (scope, program.module.root):
            return None
    else:
        around = program.graph.class_around(scope)
        if (
            around is None
            or (dotted_name(optimizer) or "").count(".") != 1
            or _root(optimizer) != scope.self_name
        ):
            return None
        home, name = (
            program.module.scopes[around],
            f"self.{(dotted_name(optimizer) or '').partition('.')[2]}",
        )
    bindings = home.bindings.get(name, []) if home is not None else []
    made = bindings[0].statement if len(bindings) == 1 else None
    is_optimizer = program.values.of(optimizer, scope).kind is Kind.OPTIMIZER
    return made if isinstance(made, ast.Assign) and is_optimizer else None


def _root(expr: ast.expr) -> str:
    return (dotted_name(expr) or "").partition(".")[0]


def _stands(
    program: Program, switch: ast.expr, scope: Scope, made: ast.stmt
) -> bool:
    """Whether the switch, written in `scope`, has its value where the optimizer is made."""
    there = program.module.scope_of(made)
    for name in names_in(switch):
        home = there.lookup(name)
        if home is not scope.lookup(name):
            return False
        if home is None:
            continue  # a builtin
        bindings = home.bindings.get(name, [])
        if home is there and not any(
            b.statement.lineno < made.lineno
            for b in bindings
            if hasattr(b.statement, "lineno")
        ):
            return False
        if len(bindings) != 1:
            return False
    return True


def _unscale(
    program: Program, scope: Scope, step: ast.Call
) -> list[ast.stmt] | None:
    """The first statement before the step that reads gradients, as a list; None where one reads
    them out of order.
    """
    events = program.events
    code = Code(program, step)
    inside = [
        s
        for s in reversed(code.before(code.statement))
        if events.of_node(s, scope) & Trait.OTHER
    ]
    readers = [
        s
        for s in inside
        if any(
            events.what(n, scope) in {EventKind.CLIP, EventKind.READ}
            or _follows(program, n, scope)
            for n in shallow(s)
        )
    ]
    found = {id(n) for s in readers for n in shallow(s)}
    others = [
        c
        for c in scope.calls
        if events.what(c, scope) in {EventKind.CLIP, EventKind.READ}
        and id(c) not in found
    ]
    return None if others else readers[:1]


def _follows(program: Program, node: ast.AST, scope: Scope) -> bool:
    """A helper in sight that clips or reads."""
    function = (
        program.events.callee(node, scope)
        if isinstance(node, ast.Call)
        else None
    )
    return function is not None and bool(
        program.events.of_function(function) & Trait.OTHER
    )
