"""What the probe writes down of a run."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from amp_migrate.runtime.events import Event
from amp_migrate.runtime.gradients import load
from amp_migrate.runtime.instrument import Instrument
from amp_migrate.runtime.measured import elapsed
from amp_migrate.runtime.probe import _is_finite
from amp_migrate.runtime.supervise import Supervisor
from tests.runtime.programs import BEFORE
from tests.runtime.test_supervise import job


def test_norms_are_sampled_after_the_first_steps(supervisor: Supervisor, tmp_path: Path) -> None:
    (trace,) = supervisor.run(job(tmp_path, BEFORE, steps=24))
    taken = [i for i, norm in enumerate(trace.gradient_norms) if math.isfinite(norm)]
    assert taken == [*range(10), 10, 20]
    assert all(0 < trace.gradient_norms[i] < 100 for i in taken)


LATE = (
    BEFORE.replace(
        "        scheduler.step()\n",
        "        scheduler.step()\n"
        "        if epoch == 2:\n"
        "            optimizer.add_param_group({'params': [late, never]})\n"
        "        extra = late.sum() if epoch > 3 else 0\n",
    )
    .replace(
        "    for epoch",
        "    late, never = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))\n"
        "    extra = 0\n    for epoch",
    )
    .replace("y.to(device))\n", "y.to(device)) + extra\n")
)


def test_a_parameter_without_a_gradient_is_named_and_a_late_one_is_not(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    (trace,) = supervisor.run(job(tmp_path, LATE, steps=24))
    assert trace.status in ("stopped", "finished"), trace.error
    assert len(trace.without_gradient) == 1
    assert len(trace.parameter_names) == 6


def test_the_device_that_takes_longest_counts() -> None:
    def at(time: float) -> Any:
        return SimpleNamespace(time=time, elapsed_time=lambda other: other.time - time)

    one, other = torch.device("cuda", 0), torch.device("cuda", 1)
    assert elapsed({one: at(0), other: at(0)}, {one: at(1000), other: at(3000)}) == 3.0
    assert elapsed({one: at(0)}, {one: at(2000), other: at(9000)}) == 2.0
    assert elapsed({}, {}) == 0.0


@pytest.mark.parametrize("capturing", [True, False])
def test_nothing_of_the_measuring_goes_into_a_graph(
    capturing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_current_stream_capturing", lambda: capturing)
    heard: list[Event] = []
    instrument = Instrument([SimpleNamespace(on=heard.append)])
    instrument._emit("backward")
    assert (len(heard), instrument.captured) == ((0, 1) if capturing else (1, 0))


def test_a_sum_that_is_too_long_is_no_infinite_parameter() -> None:
    largest = torch.finfo(torch.float32).max
    assert _is_finite(torch.full((3,), largest))
    assert not _is_finite(torch.tensor([1.0, math.inf, -math.inf]))
    assert not _is_finite(torch.tensor([1.0, math.nan]))


@pytest.mark.parametrize("changes", [{"perturb": 2.0**-10}, {"left_out": ((0, 1),)}])
def test_parameters_that_are_compared_with_nothing_are_not_kept(
    supervisor: Supervisor, tmp_path: Path, changes: dict[str, Any]
) -> None:
    kept = {}
    for name, more in (("plain", {}), ("changed", changes)):
        folder = tmp_path / name
        folder.mkdir()
        supervisor.run(job(folder, BEFORE, **more))
        kept[name] = len(load(folder / "out" / "rank0")["parameters"])
    assert kept == {"plain": 4, "changed": 0}
