"""Of each crossing some programs in every run; `python -m tests.generated.crossing` asks more."""

from __future__ import annotations

import os

import pytest

from tests.generated import running
from tests.generated.campaign import Judged, guarded
from tests.generated.crossing import CROSSINGS, programs, right, sample, told
from tests.generated.open_findings import OPEN_CROSSINGS
from tests.generated.programs import Program

COUNT = int(os.environ.get("CROSSING_PROGRAMS", "6"))
SEED = os.environ.get("CROSSING_SEED", "regression")
SAMPLES = {
    f"{crossing}: {name}": program
    for crossing in CROSSINGS
    for name, program in sample(crossing, COUNT, SEED)
}


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    running.prepare()


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_a_program_is_right_or_left_alone(name: str) -> None:
    one = Judged(name, SAMPLES[name], guarded(SAMPLES[name]))
    is_open = any(part in name for part in OPEN_CROSSINGS)
    assert is_open or right(one), told(one)


@pytest.fixture(scope="module")
def everything() -> dict[str, dict[str, Program]]:
    return {crossing: dict(programs(crossing)) for crossing in CROSSINGS}


def test_parts_are_put_in_all_places(everything: dict[str, dict[str, Program]]) -> None:
    for crossing, found in everything.items():
        assert len(found) > 600, crossing
        texts = [text for one in found.values() for text in one.files.values()]
        assert not any(word in text for text in texts for word in ("MAKE_", "MODEL", "$1"))


def test_open_crossings_exist(everything: dict[str, dict[str, Program]]) -> None:
    names = [name for found in everything.values() for name in found]
    assert all(any(part in name for name in names) for part in OPEN_CROSSINGS)
