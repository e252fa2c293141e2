"""The state machine on a path: one state for each scaler, kept for as long as it can be known."""

from __future__ import annotations

import ast

from amp_migrate.model.steps.events import EventKind
from amp_migrate.protocol.broken import Broken
from amp_migrate.protocol.diagnostics import Diagnostics
from amp_migrate.protocol.ends import Here
from amp_migrate.protocol.machine import (
    Event,
    OptimizerState,
    Stage,
    State,
    Violation,
    advance,
)
from amp_migrate.protocol.participants import Participants
from amp_migrate.protocol.paths import Path
from amp_migrate.protocol.values import Evaluation

_STAGES: dict[EventKind, Stage] = {
    EventKind.UNSCALE: "unscaled",
    EventKind.SCALER_STEP: "stepped",
}


class Tracker:
    """Advances the states of the scalers on a path."""

    def __init__(
        self,
        participants: Participants,
        diagnostics: Diagnostics,
        evaluation: Evaluation,
    ) -> None:
        self.participants = participants
        self.diagnostics = diagnostics
        self.evaluation = evaluation
        self.fed: set[str] = set()
        """Optimizers that a backward in sight gives gradients."""
        self.due: set[ast.AST] = set()
        """Updates that have a step before them on some path."""

    def state(self, scaler: str, path: Path) -> State:
        """The state of a scaler; of one not met yet, that it works."""
        return path.scalers.get(scaler) or State(has_scale=True)

    def held(self, scaler: str, name: str, path: Path) -> OptimizerState:
        """One optimizer, as the scaler sees it."""
        return self.state(scaler, path).of(name)

    def hold(
        self, scaler: str, name: str, held: OptimizerState, path: Path
    ) -> None:
        """Set the state of one optimizer."""
        path.scalers[scaler] = self.state(scaler, path).with_optimizer(
            name, held
        )

    def follows(self, scaler: str, name: str, path: Path) -> bool:
        """Whether the state of this optimizer and its gradients is known on the path."""
        return not {scaler, name, "~" + name} & path.lost

    def lose_all(self, path: Path) -> None:
        """Nothing is known any more."""
        path.lost |= self.participants.everyone()

    def strip(self, name: str, path: Path) -> None:
        """Gradients that were stepped with are cleared somewhere before the next backward, in
        sight or not.
        """
        for scaler in self.participants.partners(name):
            held = self.held(scaler, name, path)
            if "used" in held.gradients:
                self.hold(
                    scaler,
                    name,
                    held._replace(gradients=held.gradients - {"used"}),
                    path,
                )

    def apply(
        self, scaler: str, kind: EventKind, names: list[str], here: Here
    ) -> None:
        """Tell the state machine of an event, and the diagnostics of what it breaks."""
        path = here.path
        if scaler in path.lost:
            return
        usable = tuple(
            n for n in names if n not in path.lost and "~" + n not in path.lost
        )
        for name in names:
            if "~" + name in path.lost and name not in path.lost:
                self._advance_stage(scaler, kind, name, here)
        if names and not usable:
            return
        before = self.state(scaler, path)
        after, violations = advance(before, Event(kind, usable))
        if kind is EventKind.CLIP:
            for name in usable:
                self._clipped(scaler, name, before.of(name), here)
        if kind is EventKind.UPDATE and any(
            held.checked for _, held in before.optimizers
        ):
            self.due.add(here.node)
        path.scalers[scaler] = after
        for violation in violations:
            self.diagnostics.violated(
                Broken(violation, scaler, kind, before, here)
            )

    def _clipped(
        self, scaler: str, name: str, held: OptimizerState, here: Here
    ) -> None:
        """Remember where gradients were bounded: of scaled ones each place is as wrong as the
        first.
        """
        key = ("clip", scaler, name)
        if held.clipped is None:
            here.path.mark(key, here.node)
            here.path.forget(("clip again", scaler, name))
        elif held.stage == "ready" and held.gradients & {"scaled", "stale"}:
            again = ("clip again", scaler, name)
            known = here.path.marks.get(again, ())
            if here.node not in (*known, *here.path.marks.get(key, ())):
                here.path.marks[again] = (*known, here.node)

    def _advance_stage(
        self, scaler: str, kind: EventKind, name: str, here: Here
    ) -> None:
        """What can be told of an optimizer without knowing its gradients: that it is stepped again
        before an update, and that it steps by itself what the scaler has divided.
        """
        before = self.state(scaler, here.path)
        is_bare = kind is EventKind.BARE_STEP
        if is_bare and before.of(name).stage == "unscaled":
            found = Violation("bare-step-after-unscale", name)
            self.diagnostics.violated(Broken(found, scaler, kind, before, here))
        if kind not in _STAGES:
            return
        if before.of(name).stage == "stepped":
            found = Violation("missing-scaler-update", name)
            self.diagnostics.violated(Broken(found, scaler, kind, before, here))
        self.hold(
            scaler, name, OptimizerState(_STAGES[kind], checked=True), here.path
        )
