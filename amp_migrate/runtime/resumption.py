"""Whether a run that was stopped and went on from its checkpoint is the run that was not stopped.

The original is asked as well: a program that does not save the state of its random numbers goes on
with others, and AMP is held to no more than that. The loss scale is asked in any case.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from amp_migrate.runtime.check import Check
from amp_migrate.runtime.compare import largest_difference
from amp_migrate.runtime.endings import ENDED, how
from amp_migrate.runtime.report import Report
from amp_migrate.runtime.trace import Trace


@dataclass(frozen=True)
class Resumed:
    """The whole run, and the one that went on from the checkpoint saved at `place`."""

    whole: Trace
    again: Trace
    place: tuple[int, int]

    @property
    def difference(self) -> float:
        """Of the losses after the checkpoint; 0 where they are equal bit for bit."""
        return largest_difference(
            self.whole.losses[self.place[1] :], self.again.losses
        )

    @property
    def exact(self) -> bool:
        """Bit for bit, to the end."""
        return not self.difference and (
            self.whole.parameter_digests == self.again.parameter_digests
        )

    @property
    def scaler(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Scale and good steps in a row at the first step: as it was, and as it is."""
        attempt = len(self.whole.optimizers) - len(self.again.optimizers)
        was = list(zip(self.whole.scales, self.whole.trackers, strict=True))[
            attempt:
        ]
        is_now = list(zip(self.again.scales, self.again.trackers, strict=True))
        return was[0], is_now[0]


def compare_resumed(
    report: Report, run: Callable[..., Trace], name: str, ways: dict[str, Any]
) -> None:
    """Add the checks to `report`."""
    label = f"{name}: resume"
    found: dict[str, Resumed] = {}
    for way, changes in (("original", {}), (name, ways)):
        made = _resumed(report, run, f"{way} for {name}", changes)
        if isinstance(made, str):
            report.checks.append(
                Check(label, "fail", None, None, f"the {way} run {made}")
            )
            return
        found[way] = made
    floor = report.options.limits.loss_floor
    report.checks.extend(_checks(label, found["original"], found[name], floor))


def _resumed(
    report: Report,
    run: Callable[..., Trace],
    told: str,
    changes: dict[str, Any],
) -> Resumed | str:
    """The runs of one way; or why they say nothing."""
    more = tuple(shlex.split(report.options.resume or ""))
    whole = run(
        f"{told}, whole",
        home=f"{told} whole",
        steps=0,
        watch_saves=True,
        **changes,
    )
    if whole.status != "finished":
        return how(whole)
    places = [
        tuple(place) for place in whole.saves if 0 < place[0] < whole.steps
    ]
    if not places:
        return "saves no checkpoint with an optimizer's state between its first and last step"
    number = len(places) // 2
    home = f"{told} resumed"
    first = sum(1 for place in whole.saves if not place[0])
    watched = {"home": home, "steps": 0, "watch_saves": True, **changes}
    cut = run(f"{told}, stopped", **watched, stop_at_save=first + number + 1)
    if cut.status not in ENDED:
        return f"that is stopped {how(cut)}"
    again = run(f"{told}, resumed", **watched, more=more)
    if again.status != "finished":
        return f"that is resumed {how(again)}"
    done, losses = places[number]
    if again.steps != whole.steps - done:
        return (
            f"that is resumed makes {again.steps} steps; {whole.steps - done} were left after its "
            "checkpoint: do the arguments of --resume have it go on?"
        )
    return Resumed(whole, again, (done, losses))


def _scaler(
    label: str, was: tuple[float, float], is_now: tuple[float, float]
) -> Check:
    if was == is_now:
        message = f"the scaler goes on where it was, at a scale of {was[0]:g}"
        return Check(label, "pass", is_now[0], was[0], message)
    message = (
        f"the scaler does not go on where it was: its scale was {was[0]:g} after {was[1]:g} good "
        f"steps and is {is_now[0]:g} after {is_now[1]:g}; is its state saved and loaded?"
    )
    return Check(label, "fail", is_now[0], was[0], message)


def _checks(
    label: str, original: Resumed, amp: Resumed, floor: float
) -> Iterator[Check]:
    was, is_now = amp.scaler
    if was[1] >= 0 or is_now[1] >= 0:
        yield _scaler(f"{label}d scaler", was, is_now)
    if amp.exact:
        message = (
            "the resumed run equals the one that was not stopped, bit for bit"
        )
        yield Check(label, "pass", 0.0, 0.0, message)
        return
    limit = 3 * original.difference + floor
    if original.exact or amp.difference > limit:
        message = "the resumed run is not the one that was not stopped"
        message += (
            ", and without AMP it is"
            if original.exact
            else ", by more than without AMP"
        )
        yield Check(label, "fail", amp.difference, limit, message)
        return
    message = (
        "the program does not resume exactly without AMP either (its random numbers start anew); "
        "with AMP it is as near"
    )
    yield Check(label, "pass", amp.difference, limit, message)
