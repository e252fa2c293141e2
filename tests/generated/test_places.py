"""What half precision breaks is seen in every place from which it may be run."""

from __future__ import annotations

import os

import pytest

from tests.generated import running
from tests.generated.attacking import Attack
from tests.generated.places import HAZARDS, meets, programs

EVERY = int(os.environ.get("PLACES_EVERY", "11"))
"""CI takes one program in eleven, `python -m tests.generated.places` all."""
OPEN: dict[str, str] = {}
PROGRAMS = {one.name: one for one in [*programs()][::EVERY]}


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    running.prepare()


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_it_is_mended_or_refused(program: Attack) -> None:
    right, told = meets(program)
    assert right, told


def test_each_operation_stands_in_each_place() -> None:
    named = [one.name for one in programs()]
    assert len(named) == len(set(named)) > 300
    assert len(named) % len(HAZARDS) == 0
    texts = [text for one in programs() for text in one.program.files.values()]
    assert not any("HAZARD" in text or "HELPERS" in text for text in texts)
