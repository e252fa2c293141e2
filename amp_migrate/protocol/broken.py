"""A broken rule of the protocol, and where it shows."""

from __future__ import annotations

import ast

from amp_migrate.model.steps.events import EventKind
from amp_migrate.protocol.ends import Here
from amp_migrate.protocol.machine import State, Violation
from amp_migrate.protocol.paths import Mark, Path, Witnesses
from amp_migrate.records import NamedTuple


class Mistake(NamedTuple):
    """A broken rule at a node, and the places that it conflicts with."""

    rule: str
    node: ast.expr | ast.stmt
    related: tuple[tuple[ast.expr | ast.stmt, str], ...] = ()
    scaler: ast.expr | None = None
    """The scaler as written where it last scaled or stepped."""
    optimizers: int = 1
    """How many optimizers the analysis has seen."""
    updates: tuple[ast.AST, ...] = ()
    """Where scalers are updated, as far as that is in sight."""
    optimizer: str = ""
    """The identity of the optimizer that lacks gradients."""
    owner: ast.expr | None = None
    """The optimizer that it is about, as first written."""


class Broken(NamedTuple):
    """A violation where it shows."""

    violation: Violation
    scaler: str
    kind: EventKind
    before: State
    """The state of the scaler before the event."""
    here: Here

    @property
    def rule(self) -> str:
        return self.violation.rule

    @property
    def name(self) -> str:
        """The optimizer concerned."""
        return self.violation.optimizer or ""

    @property
    def path(self) -> Path:
        return self.here.path

    def where(self, mark: str) -> Witnesses:
        """Where this last happened to the scaler and the optimizer."""
        keys: dict[str, Mark] = {
            "scaled": ("scaled", self.name),
            "plain": ("plain", self.name),
            "cleared": ("cleared", self.name),
            "update": ("update", self.scaler),
            "left": ("left", self.scaler),
        }
        return self.path.marks.get(
            keys.get(mark, (mark, self.scaler, self.name)), ()
        )

    def lose(self, name: str) -> None:
        """Follow this scaler, optimizer or (`~`) gradients of an optimizer no further."""
        self.path.lost |= {name}
