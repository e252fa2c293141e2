"""Whether mixed precision pays, from what was measured."""

from __future__ import annotations

import pytest
import torch

from amp_migrate.runtime.events import Event, Site
from amp_migrate.runtime.pays import odd_share, pays
from amp_migrate.runtime.phases import Phases
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.trace import Trace
from amp_migrate.runtime.waiting import Waiting

EVEN = [[64, 64], [64]]


def ran(step: float, memory: int = 1000, dtype: str = "float16", **more: object) -> Trace:
    facts = {"operators": 100, "half_operators": 50, "parameter_shapes": EVEN, **more}
    seconds = [step * (1 + 0.001 * (i % 3)) for i in range(30)]
    return Trace(step_seconds=seconds, peak_memory_bytes=memory << 20, dtype=dtype, **facts)  # type: ignore[arg-type]


def told(original: Trace, amp: Trace, tf32: Trace | None = None) -> str:
    more = {"tf32": tf32} if tf32 is not None else {}
    runs = Runs({"original": original, "original-again": original, **more, "amp": amp})
    return list(pays(runs))[-1]


def test_a_table_comes_first() -> None:
    runs = Runs({"original": ran(0.1), "tf32": ran(0.08), "amp": ran(0.05, 600)})
    assert [line.partition(" (")[0] for line in pays(runs)][:3] == [
        "float32: 100.10 ms per step",
        "TF32: 80.08 ms per step",
        "float16: 50.05 ms per step",
    ]


def test_it_pays() -> None:
    assert told(ran(0.1), ran(0.05, 600)) == (
        "AMP (float16) pays here: 2.00 times as fast as float32, with 60% of the memory"
    )


def test_it_is_held_against_the_fastest_without_it() -> None:
    said = told(ran(0.1), ran(0.05), ran(0.04))
    assert said.startswith("AMP (float16) does not pay here: 0.80 times as fast as TF32")
    assert "TF32 gains 2.50x already" in said


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"waiting_share": 0.6}, "it waits for data 60% of the time"),
        ({"operators": 10_000, "half_operators": 5_000}, "10 µs per operator"),
        ({"parameter_shapes": [[50, 30]]}, "100% of its weights have sizes"),
        ({"half_operators": 3}, "only 3 of 100 operators run in float16"),
        ({}, "its time is spent in what stays in float32"),
    ],
)
def test_why_it_does_not(facts: dict[str, object], words: str) -> None:
    said = told(ran(0.1), ran(0.1, **facts))
    assert said.startswith(
        "AMP (float16) does not pay here: 1.00 times as fast as float32, because"
    )
    assert said.count(";") == 0
    assert words in said


def test_memory_alone() -> None:
    assert "pays here in memory only" in told(ran(0.1), ran(0.1, 500))


def test_where_the_time_goes() -> None:
    phases = {"data and forward": 2.0, "backward": 1.0, "optimizer": 1.0}
    original = ran(0.1, phase_seconds=phases, waiting_share=0.25)
    runs = Runs({"original": original, "amp": ran(0.05)})
    assert list(pays(runs))[2] == (
        "float32: the time goes into data and forward 50%, backward 25%, optimizer 25%; it waits "
        "for data 25% of the time"
    )


def test_the_parts_of_a_step_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step, of the warm-up, is not counted; a second backward of a step is."""
    times = iter([10.0, 14.0, 15.0, 17.0, 19.0, 20.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    phases = Phases(True, 1)
    for kind in ("backward", "backwarded", "step", "stepped", "backward", "backwarded", "backward",
                 "backwarded", "stepped"):  # fmt: skip
        phases.on(Event(kind, Site("train.py", 1)))
    assert phases.seconds() == {"data and forward": 6.0, "backward": 3.0, "optimizer": 1.0}
    assert Phases(True, 1).seconds() == {}


def test_where_nothing_was_timed_nothing_is_said() -> None:
    assert not list(pays(Runs({"original": Trace(), "amp": Trace()})))


@pytest.mark.parametrize(
    ("shapes", "share"),
    [
        ([], 0.0),
        ([[7]], 0.0),
        ([[8, 16]], 0.0),
        ([[8, 7], [8, 1]], 1.0),
        ([[8, 8], [8, 9]], 72 / 136),
    ],
)
def test_sizes_that_tensor_cores_do_not_take(shapes: list[list[int]], share: float) -> None:
    assert odd_share(shapes) == pytest.approx(share)


def test_waiting_for_data_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = torch.utils.data.dataloader._BaseDataLoaderIter
    monkeypatch.setattr(kind, "__next__", kind.__next__)
    monkeypatch.setattr(kind, "next", kind.__next__, raising=False)
    waiting = Waiting()
    assert waiting.share == 0.0
    for _ in torch.utils.data.DataLoader(torch.ones(50)):
        pass
    assert 0 < waiting.share <= 1
    assert not waiting.workers
