"""Verdicts on programs that are known to be right or wrong: a few by default, every fifth among the
slow tests. `python -m tests.runtime.verdicts.run` tries all of them, which takes half an hour.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.runtime.supervise import Supervisor
from tests.runtime.verdicts.run import CASES, fault, verdict

QUICK = (
    "a bias before batch norm",
    "no update",
    "the model runs in a thread",
    "one more parameter",
    "AMP in the second loop alone",
    "an optimizer in each gradient hook",
)

SAMPLE = [name for name in list(CASES)[::5] if name not in QUICK]


def test_there_are_enough_of_both() -> None:
    assert len(CASES) >= 80
    assert 0.4 <= sum(not case.fails for case in CASES.values()) / len(CASES) <= 0.6


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SAMPLE)]
)
def test_verdict(name: str, supervisor: Supervisor, tmp_path: Path) -> None:
    report = verdict(CASES[name], supervisor, tmp_path, seed=0, device="cpu")
    assert not fault(CASES[name], report)
