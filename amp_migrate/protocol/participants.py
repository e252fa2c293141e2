"""Who takes part in the training step: scalers, optimizers, and what belongs to what."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from amp_migrate.model.events import EventKind
from amp_migrate.model.owners import Owners
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Function
from amp_migrate.protocol.ends import Here
from amp_migrate.protocol.frames import Frame, identity
from amp_migrate.protocol.paths import Path


@dataclass(eq=False)
class Participants:
    """What a first run over a scope has collected, and who is meant by an event."""

    program: Program
    owners: Owners
    pairs: dict[str, set[str]] = field(default_factory=dict)
    """Optimizers that each scaler steps or unscales."""
    exprs: dict[str, ast.expr] = field(default_factory=dict)
    """Scalers, as first written."""
    backwards: set[ast.AST] = field(default_factory=set)
    steps: dict[str, set[ast.AST]] = field(default_factory=dict)
    updates: dict[str, dict[ast.AST, tuple[ast.AST, ...]]] = field(default_factory=dict)
    """`update()` calls of each scaler with the loops around them."""
    given: Function | None = None
    """The function that gets its gradients from callers: no backward is in sight."""
    kept: dict[str, set[str]] = field(default_factory=dict)
    """Scalers and optimizers that were handed to the constructor of what a variable holds."""

    def scalers(self) -> list[str]:
        """Every scaler."""
        return list(self.exprs)

    def everyone(self) -> set[str]:
        """Every scaler and optimizer."""
        return {*self.exprs, *self.owners.optimizers}

    def partners(self, optimizer: str) -> list[str]:
        """Scalers that have to do with an optimizer: those that step or unscale it, or all."""
        found = [scaler for scaler, names in self.pairs.items() if optimizer in names]
        return found or self.scalers()

    def alive(self, frame: Frame) -> list[str]:
        """Optimizers that can be reached from here: locals of functions that do not run
        are none.
        """
        running = []
        here: Frame | None = frame
        while here is not None:
            running.append(here.scope.qualname)
            here = here.caller
        return [name for name in self.owners.optimizers if _lives(name, running)]

    def note(self, kind: EventKind, here: Here) -> None:
        """Remember who takes part in an event."""
        if kind is EventKind.BACKWARD:
            self.backwards.add(here.node)
        collect = _COLLECT.get(kind)
        node = here.node
        if collect is None or not isinstance(node, ast.Call):
            return
        if isinstance(node.func, ast.Attribute):
            name = identity(node.func.value, here.frame, here.path)
            if name is not None:
                collect(self, name, node, here)


def _scaler(seen: Participants, name: str, node: ast.Call, here: Here) -> None:
    assert isinstance(node.func, ast.Attribute)
    seen.exprs.setdefault(name, node.func.value)


def _pair(seen: Participants, name: str, node: ast.Call, here: Here) -> None:
    _scaler(seen, name, node, here)
    given = optimizer_given(node)
    optimizer = identity(given, here.frame, here.path) if given is not None else None
    if given is not None and optimizer is not None:
        seen.owners.add(optimizer, given, here.frame.scope)
        seen.pairs.setdefault(name, set()).add(optimizer)


def _step(seen: Participants, name: str, node: ast.Call, here: Here) -> None:
    _pair(seen, name, node, here)
    seen.steps.setdefault(name, set()).add(node)


def _update(seen: Participants, name: str, node: ast.Call, here: Here) -> None:
    _scaler(seen, name, node, here)
    seen.updates.setdefault(name, {})[node] = here.frame.loops


def _bare_step(seen: Participants, name: str, node: ast.Call, here: Here) -> None:
    assert isinstance(node.func, ast.Attribute)
    seen.owners.add(name, node.func.value, here.frame.scope)


_COLLECT: dict[EventKind, Callable[[Participants, str, ast.Call, Here], None]] = {
    EventKind.SCALE: _scaler,
    EventKind.UNSCALE: _pair,
    EventKind.SCALER_STEP: _step,
    EventKind.UPDATE: _update,
    EventKind.BARE_STEP: _bare_step,
}


def optimizer_given(call: ast.Call) -> ast.expr | None:
    """What `scaler.step(...)` or `scaler.unscale_(...)` is given."""
    if call.args:
        return call.args[0]
    return next((k.value for k in call.keywords if k.arg == "optimizer"), None)


def optimizer_of(call: ast.Call, frame: Frame, path: Path) -> str | None:
    """The optimizer that `scaler.step(...)` is about."""
    given = optimizer_given(call)
    return identity(given, frame, path) if given is not None else None


def _lives(name: str, running: list[str]) -> bool:
    home = name.rpartition(":")[0] if "[" not in name else ""
    return not home or any(one == home or one.startswith(home + ".") for one in running)
