"""Whose gradients an expression reads: those of the parameters that it names, else of all
optimizers that are alike.
"""

from __future__ import annotations

import ast

from amp_migrate.model.gradients.uses import is_gradient
from amp_migrate.protocol.calls import mentioned
from amp_migrate.protocol.ends import Here
from amp_migrate.protocol.frames import Frame
from amp_migrate.protocol.tracking import Tracker


def readers(tracker: Tracker, here: Here) -> list[tuple[str, str]]:
    """Pairs of scaler and optimizer whose gradients an expression reads."""
    participants = tracker.participants
    owners = participants.owners
    names = {
        name
        for part in _read(tracker, here.node)
        for name in mentioned(part, here.path, here.frame)
    }
    alive = participants.alive(here.frame)
    # `p.grad` in a helper that was handed it
    whole = names | here.frame.handed
    read = (
        [name for name in sorted(names) if name in owners.optimizers]
        or _of_call(owners.of_models(sorted(names), alive), here.frame)
        or [name for name in sorted(whole) if name in owners.optimizers]
        or owners.of_models(sorted(whole), alive)
        or _all_alike(tracker, alive, here)
    )
    return [
        (scaler, name)
        for name in read
        for scaler in participants.partners(name)
    ]


def _of_call(found: list[str] | None, frame: Frame) -> list[str]:
    """Of several optimizers that a model may belong to, those that were handed on with it."""
    handed = [name for name in found or () if name in frame.handed]
    return handed or found or []


def _read(tracker: Tracker, node: ast.AST) -> list[ast.AST]:
    """The parts of an event that say whose gradients it reads: neither bounds and norms do, nor the
    name of a function.
    """
    if not isinstance(node, ast.Call):
        return [node]
    given = {one.arg: one.value for one in node.keywords}
    first = node.args[0] if node.args else given.get("parameters")
    holder = node.func.value if isinstance(node.func, ast.Attribute) else None
    if holder is not None and is_gradient(holder):
        return [holder]
    if first is None:
        return [node]
    is_library = tracker.participants.program.canonical(node.func) is not None
    return [first] if is_library or holder is None else [holder, first]


def _all_alike(tracker: Tracker, names: list[str], here: Here) -> list[str]:
    """Whichever of several optimizers is meant, where all of them hold scaled gradients, or none
    does.
    """
    alike: set[bool] = set()
    for name in names:
        for scaler in tracker.participants.partners(name):
            held = tracker.held(scaler, name, here.path)
            is_scaled = held.gradients == {"scaled"} and held.stage == "ready"
            is_divided = held.gradients == {"unscaled"}
            alike.add(is_scaled)
            if not (is_scaled or is_divided) or len(alike) > 1:
                return []
            if not tracker.follows(scaler, name, here.path):
                return []
    return names
