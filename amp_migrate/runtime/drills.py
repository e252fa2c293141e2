"""Drills: what a correct loop must survive is provoked, and what it does is told.

Each result is a dict of `verdict`, `measured`, `limit` and `message`, ready to become a check.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import torch

from amp_migrate.runtime.events import Event
from amp_migrate.runtime.owned import parameters_of
from amp_migrate.runtime.saves import dicts, is_optimizer

_AT = 2
_STAYS = "after an overflow all later steps overflow, too: its gradients are not cleared"
_STAYED = "the steps before the overflow of the drill had inf gradients already, as all later ones"
Result = dict[str, Any]


def result(verdict: str, measured: Any, limit: Any, message: str) -> Result:
    """One drill's answer."""
    return {
        "verdict": verdict,
        "measured": measured,
        "limit": limit,
        "message": message,
    }


class Overflow:
    """Puts one inf among the gradients of the third step: it must be skipped, the scale halved
    once, and nothing of it be left to the steps after it.
    """

    name = "overflow drill"

    def __init__(self) -> None:
        self._attempts = 0
        self._optimizer: Any = None
        self._scaler: Any = None
        self._before: list[torch.Tensor] = []
        self._scale = 0.0
        self._changed: bool | None = None
        self._after: float | None = None
        self._finite = True
        """Whether the gradients that it struck were."""
        self._later: list[bool] = []
        """Whether the gradients of each attempt after it are finite."""

    def on(self, event: Event) -> None:
        """Follow the steps; strike once."""
        if event.kind in ("unscale", "step") and event.scaler is not None:
            if self._optimizer is None and self._attempts >= _AT:
                self._strike(event)
            elif event.kind == "step" and self._after is not None:
                self._look(event.optimizer)
        elif event.kind == "stepped":
            self._attempts += 1
            if event.optimizer is self._optimizer:
                self._judge()
        elif event.kind == "backward" and self._optimizer is not None:
            self._judge()  # a program may leave out such a step by itself: it saw the norm
        elif (
            event.kind == "updated"
            and event.scaler is self._scaler
            and self._after is None
        ):
            self._after = event.scaler.get_scale()

    def _judge(self) -> None:
        if self._changed is None:
            pairs = zip(
                self._before, parameters_of(self._optimizer), strict=True
            )
            self._changed = any(
                not torch.equal(old, new.detach()) for old, new in pairs
            )

    def _look(self, optimizer: Any) -> None:
        if optimizer is self._optimizer:
            self._later.append(_are_finite(_gradients(optimizer)))

    def _strike(self, event: Event) -> None:
        gradients = _gradients(event.optimizer)
        if not gradients:
            return
        self._finite = _are_finite(gradients)
        first = _values(gradients[0])
        with torch.no_grad():
            first[(0,) * first.dim()] = torch.inf  # of any layout
        self._optimizer, self._scaler = event.optimizer, event.scaler
        self._before = [
            p.detach().clone() for p in parameters_of(event.optimizer)
        ]
        self._scale = event.scaler.get_scale()

    def results(self, raised: str) -> Iterator[tuple[str, Result]]:
        """The answer; `raised` is the program's error, if any."""
        yield self.name, self._result(raised)

    def _result(self, raised: str) -> Result:
        if self._optimizer is None:
            message = "no step with a scaler came up for the drill"
            return result("skip", None, None, message)
        if raised:
            last = raised.strip().splitlines()[-1]
            return result("fail", last, None, "an overflow ends the program")
        if self._changed is None:
            message = "after an overflow the step was not reached"
            return result("fail", None, None, message)
        if self._changed:
            message = "a step with inf gradients changed the parameters"
            return result("fail", "changed", "unchanged", message)
        if len(self._later) > 1 and not any(self._later):
            message = _STAYS if self._finite else _STAYED
            return result("fail", len(self._later), 0, message)
        return self._scale_result()

    def _scale_result(self) -> Result:
        expected = self._scale * self._scaler.get_backoff_factor()
        if self._after == expected:
            message = (
                "a step with inf gradients was skipped, the scale went from "
                f"{self._scale:g} to {expected:g}"
            )
            return result("pass", self._after, expected, message)
        return result(
            "fail",
            self._after,
            expected,
            f"after an overflow the scale is {self._after}, not {expected:g}",
        )


def _are_finite(gradients: list[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(_values(one)).all()) for one in gradients)


def _gradients(optimizer: Any) -> list[torch.Tensor]:
    return [
        p.grad
        for p in parameters_of(optimizer)
        if p.grad is not None and p.grad.numel()
    ]


def _values(gradient: torch.Tensor) -> torch.Tensor:
    return gradient._values() if gradient.is_sparse else gradient


class Checkpoint:
    """Where the program saves an optimizer's state with `torch.save`, the scaler's must be there
    and come back.
    """

    name = "checkpoint drill"

    def __init__(self) -> None:
        self._scalers: list[Any] = []
        self._results: list[Result] = []
        save: Callable[..., Any] = torch.save

        def saved(what: Any, *arguments: Any, **keywords: Any) -> Any:
            self._look(what)
            return save(what, *arguments, **keywords)

        setattr(torch, "save", saved)  # noqa: B010 - the types differ
        self._save = save

    def on(self, event: Event) -> None:
        """Remember the scalers in use."""
        if (
            event.kind == "step"
            and event.scaler is not None
            and event.scaler not in self._scalers
        ):
            self._scalers.append(event.scaler)

    def _look(self, what: Any) -> None:
        if (
            not isinstance(what, dict)
            or not self._scalers
            or is_optimizer(what)
        ):
            return
        found = list(dicts(what))
        if not any(map(is_optimizer, found)):
            return
        states = [
            state
            for state in found
            if set(self._scalers[0].state_dict()) <= set(state)
        ]
        if not states:
            message = (
                "a checkpoint holds the optimizer's state but not the scaler's: resuming "
                "starts from 65536 again"
            )
            self._results.append(result("fail", 0, 1, message))
        else:
            self._results.append(self._round_trip(states[0]))

    def _round_trip(self, state: dict[str, Any]) -> Result:
        file, fresh = io.BytesIO(), torch.amp.GradScaler("cpu")
        self._save(state, file)
        file.seek(0)
        fresh.load_state_dict(torch.load(file, weights_only=True))
        live = [scaler.state_dict() for scaler in self._scalers]
        if fresh.state_dict() in live:
            return result(
                "pass",
                fresh.get_scale(),
                live[0]["scale"],
                "the scaler's state is saved and comes back",
            )
        return result(
            "fail",
            fresh.state_dict(),
            live[0],
            "the saved state of the scaler is not the one in use",
        )

    def results(self, raised: str) -> Iterator[tuple[str, Result]]:
        """The worst answer, if anything was saved."""
        worst = next(
            (found for found in self._results if found["verdict"] == "fail"),
            None,
        )
        if self._results:
            yield self.name, worst or self._results[-1]
