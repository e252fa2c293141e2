"""The speed table's programs at toy size: rewritten and hand-written AMP are the same computation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from amp_migrate.runtime.supervise import Limits, Supervisor
from tests.bench.amp_programs import CASES
from tests.bench.amp_speedup import MODES, NOT_MEASURED, measure, table


@pytest.fixture(scope="module")
def supervisor() -> Iterator[Supervisor]:
    with Supervisor(Limits(timeout=120), 0, "cpu", lambda job, state: None) as shared:
        yield shared


@pytest.mark.parametrize("name", CASES)
def test_the_rewritten_loop_is_the_one_written_by_hand(name: str, supervisor: Supervisor) -> None:
    runs = measure(CASES[name], supervisor, "cpu", toy=True, steps=3)
    assert runs["float32"].losses == runs["TF32"].losses
    for dtype in ("float16", "bfloat16"):
        rewritten, by_hand = runs[f"rewritten {dtype}"], runs[f"by hand {dtype}"]
        assert rewritten.regions == by_hand.regions > 0
        assert rewritten.losses == by_hand.losses != runs["float32"].losses
        assert rewritten.parameter_digests == by_hand.parameter_digests
    lines = list(table({name: runs}, "cpu", "none"))
    assert lines[2].count(NOT_MEASURED) == len(MODES)
    assert len(lines) == 3
