"""A custom autograd function multiplies matrices and does not say how it behaves under autocast."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import (
    CURRENT_TORCH,
    Finding,
    Fix,
    Rule,
    finding_at,
)
from amp_migrate.checks._regions import is_autocast
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function
from amp_migrate.model.syntax.queries import holds
from amp_migrate.planner.half_safety.autograd_functions import (
    BACKWARD,
    FORWARD,
    Custom,
    decorate,
    decorator,
    functions,
    multiplies,
)
from amp_migrate.torch_facts.methods import OF_CONTEXTS

RULE = Rule("custom-function-without-custom_fwd-bwd", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find functions applied under autocast that multiply, without the decorators."""
    if "Function" not in program.module.text or not _uses_autocast(program):
        return
    message = (
        "forward runs under autocast and backward does not, so their types differ; "
        "decorate them with custom_fwd and custom_bwd"
    )
    for custom in functions(program):
        forward, backward = custom.method("forward"), custom.method("backward")
        if (
            forward is None
            or backward is None
            or custom.method("setup_context") is not None
            or not _is_applied(program, custom)
        ):
            continue
        decorated = decorator(program, forward, FORWARD) or decorator(
            program, backward, BACKWARD
        )
        if decorated is None and (
            any(
                holds(method, lambda node: multiplies(program, node))
                for method in (forward, backward)
            )
            or _runs_again(forward, backward)
        ):
            yield finding_at(
                program,
                custom.node,
                RULE,
                message,
                fix=_fix(program, custom, settings),
            )


def _runs_again(forward: Function, backward: Function) -> bool:
    """Whether forward runs what it is given, and backward runs it once more, as its context keeps
    it: a checkpoint of the project's own. Whoever asks for autocast there knows.
    """
    given = {one.arg for one in forward.args.args[1:]}
    context = backward.args.args[0].arg if backward.args.args else ""
    return (
        holds(forward, lambda node: _calls_on(node, given))
        and holds(backward, lambda node: _calls_kept(node, context))
        and "autocast" not in ast.unparse(backward)
    )


def _calls_on(node: ast.AST, names: set[str]) -> bool:
    """`fn(x)` of one of some names."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in names
    )


def _calls_kept(node: ast.AST, context: str) -> bool:
    """`ctx.fn(x)`, where torch has no method of that name."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == context
        and node.func.attr not in OF_CONTEXTS
    )


def _uses_autocast(program: Program) -> bool:
    return any(
        is_autocast(program, call)
        for scope in program.module.scopes.values()
        for call in scope.calls
    )


def _is_applied(program: Program, custom: Custom) -> bool:
    return f"{custom.node.name}.apply" in program.module.text


def _fix(program: Program, custom: Custom, settings: Settings) -> Fix | None:
    forward, backward = custom.method("forward"), custom.method("backward")
    torch = program.module.imports.local("torch")
    if forward is None or backward is None or torch is None:
        return None
    if any(m.body[0].lineno == m.lineno for m in (forward, backward)):
        return None
    is_old = (settings.target_torch or CURRENT_TORCH) < (2, 4)
    there = (
        f"{torch}.cuda.amp.custom_fwd(cast_inputs={torch}.float32)"
        if is_old
        else f'{torch}.amp.custom_fwd(device_type="cuda", cast_inputs={torch}.float32)'
    )
    back = (
        f"{torch}.cuda.amp.custom_bwd"
        if is_old
        else f'{torch}.amp.custom_bwd(device_type="cuda")'
    )
    edits = (
        decorate(program, forward, there),
        decorate(program, backward, back),
    )
    return Fix(
        "unsafe",
        "run it in float32: cautious, and slower than half precision",
        edits,
    )
