"""The functions and the models' `forward`s that a call runs, here and in other files of the
project, and why that may not be all of it.
"""

from __future__ import annotations

import ast
from typing import TypeAlias

from amp_migrate.model.calls.bodies_abroad import body_abroad
from amp_migrate.model.forwards.loss_origins import Behind
from amp_migrate.model.forwards.losses import body_of, callables
from amp_migrate.model.half_safety.trail import Unseen
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts import layers

Foreign: TypeAlias = "tuple[Program, Function]"


class CodeRun(NamedTuple):
    """What a call runs."""

    own: tuple[Function, ...] = ()
    foreign: tuple[Foreign, ...] = ()
    unseen: Unseen | None = None
    """What else it may run, where that is out of sight or out of reach."""


def code_run(program: Program, call: ast.Call, scope: Scope) -> CodeRun:
    """All that a call may run."""
    return program.remembered(
        (code_run, call, scope), lambda: _code_run(program, call, scope)
    )


def _code_run(program: Program, call: ast.Call, scope: Scope) -> CodeRun:
    held = _held(program, call, scope)
    if held.own or held.foreign:
        return held
    own = [
        one
        for one in program.values.callees(call, scope)
        if one.name != "__init__"
    ]
    value = program.values.of(call.func, scope)
    if not own and value.cls is not None:
        forward = program.graph.method(value.cls, "forward")
        own = [forward] if forward is not None else []
    if own:
        return CodeRun(tuple(own))
    foreign = body_abroad(program, call, scope)
    if foreign is not None:
        unseen = Unseen(call, "", (foreign,))
        return CodeRun(foreign=(foreign,), unseen=unseen)
    if value.foreign is not None:
        return CodeRun(unseen=Unseen(call, "", (value.foreign,)))
    is_sequence = value.name == "torch.nn.Sequential"
    where = "in an nn.Sequential" if is_sequence else "out of sight"
    why = f"the sigmoid is {where}"
    return CodeRun(unseen=Unseen(call, why, above=not is_sequence))


def _held(program: Program, call: ast.Call, scope: Scope) -> CodeRun:
    """`forward` of every class that may be behind `model(x)` or `model.forward(x)`."""
    behind = callables(program, call, scope)
    bodies = [(one[0], body_of(one)) for one in behind]
    found = dict.fromkeys(
        (home, body) for home, body in bodies if isinstance(body, FUNCTIONS)
    )
    own = tuple(body for home, body in found if home is program)
    foreign = tuple(one for one in found if one[0] is not program)
    unseen = _elsewhere(program, call, behind) if found else None
    return CodeRun(own, foreign, unseen or _opaque(call, behind))


def _elsewhere(
    program: Program, call: ast.Call, behind: list[Behind]
) -> Unseen | None:
    others = tuple(
        one
        for one in behind
        if one[0] is not program and body_of(one) is not None
    )
    return Unseen(call, "", others) if others else None


def _opaque(call: ast.Call, behind: list[Behind]) -> Unseen | None:
    """One of several that a library makes."""
    for program, node in behind:
        if isinstance(node, ast.expr) and not _is_wrapper(
            program.canonical(node) or ""
        ):
            why = f"the sigmoid of `{ast.unparse(node)}` is out of sight"
            return Unseen(call, why)
    return None


def _is_wrapper(name: str) -> bool:
    """A function or class of torch that hands back, or runs, the model that it is given."""
    if name == "torch.nn.Sequential":
        return False
    row = layers.layer(name)
    is_layer = row is not None and row.role != "wrapper"
    is_known = name.startswith(("torch.", "copy."))
    return is_known and not is_layer
