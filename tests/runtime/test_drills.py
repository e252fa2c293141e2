"""The overflow drill strikes whatever the gradients' layout, and says what it could not do."""

from __future__ import annotations

import pytest
import torch

from amp_migrate.runtime.drills import Overflow
from amp_migrate.runtime.endings import drilled
from amp_migrate.runtime.events import Event, Site
from amp_migrate.runtime.trace import Trace

HERE = Site("train.py", 1)
GRADIENTS = {
    "rows": torch.ones(3, 4),
    "channels last": torch.ones(8, 3, 3, 3).contiguous(memory_format=torch.channels_last),
    "transposed": torch.ones(3, 4).t(),
    "no dimension": torch.ones(()),
}


@pytest.mark.parametrize("gradient", GRADIENTS.values(), ids=GRADIENTS)
def test_it_strikes_once(gradient: torch.Tensor) -> None:
    parameter = torch.nn.Parameter(torch.zeros_like(gradient))
    parameter.grad = gradient.clone()
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(()))
    drill = Overflow()
    for _ in range(2):
        drill.on(Event("stepped", HERE, scaler, optimizer))
    drill.on(Event("unscale", HERE, scaler, optimizer))
    assert int(torch.isinf(parameter.grad).sum()) == 1
    scaler.step(optimizer)
    drill.on(Event("stepped", HERE, scaler, optimizer))
    scaler.update()
    drill.on(Event("updated", HERE, scaler))
    [(_, found)] = drill.results("")
    assert (found["verdict"], found["measured"]) == ("pass", 4.0)


def stepped(drill: Overflow, scaler: torch.amp.GradScaler, optimizer: torch.optim.SGD) -> None:
    """A step and an update under the drill."""
    drill.on(Event("step", HERE, scaler, optimizer))
    scaler.step(optimizer)
    drill.on(Event("stepped", HERE, scaler, optimizer))
    scaler.update()
    drill.on(Event("updated", HERE, scaler))


@pytest.mark.parametrize(("cleared", "verdict"), [(True, "pass"), (False, "fail")])
def test_an_inf_that_stays_in_the_gradients_is_found(cleared: bool, verdict: str) -> None:
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    drill = Overflow()
    parameter.grad = torch.zeros(3)
    for _ in range(6):
        parameter.grad = torch.zeros(3) if cleared else parameter.grad
        scaler.scale(parameter.sum()).backward()
        stepped(drill, scaler, optimizer)
    [(_, found)] = drill.results("")
    assert found["verdict"] == verdict
    assert ("not cleared" in found["message"]) == (not cleared)


def test_steps_that_overflow_by_themselves_are_not_laid_to_the_drill() -> None:
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    drill = Overflow()
    for _ in range(6):
        optimizer.zero_grad()
        scaler.scale(parameter.sum() * torch.inf).backward()
        stepped(drill, scaler, optimizer)
    [(_, found)] = drill.results("")
    assert found["verdict"] == "fail"
    assert "had inf gradients already" in found["message"]


def test_a_drill_that_breaks_is_no_drill_that_was_skipped() -> None:
    skipped = {"overflow drill": {"verdict": "skip", "measured": 0, "limit": 0, "message": ""}}
    for unmeasured, verdicts in (([], ["skip"]), (["RuntimeError"], ["fail", "skip"])):
        trace = Trace(status="stopped", drills=skipped, unmeasured=unmeasured)
        assert [one.verdict for one in drilled("amp", trace, "overflow drill")] == verdicts
