"""Nothing that is found in a file by itself is lost in the company of others."""

from __future__ import annotations

import os

import pytest

from amp_migrate.outcome import FileOutcome, LoopOutcome
from amp_migrate.pipeline.one_file import Rewritten
from tests.generated.company import Files, less, lost, pairs, several

COUNT = int(os.environ.get("COMPANY_PAIRS", "6"))
EVERY = int(os.environ.get("COMPANY_EVERY", "9"))
PAIRS = dict(pairs(COUNT))
PROGRAMS = dict(several()[::EVERY])


@pytest.mark.parametrize("files", PAIRS.values(), ids=PAIRS)
def test_programs_side_by_side_are_planned_as_alone(files: Files) -> None:
    assert not lost(files)


@pytest.mark.parametrize("files", PROGRAMS.values(), ids=PROGRAMS)
def test_files_of_one_program_keep_what_each_finds(files: Files) -> None:
    assert not lost(files)


def test_what_is_lost_is_told() -> None:
    kept = (LoopOutcome(3, "train", "refused", "loses-precision", "why"),)
    taken = (LoopOutcome(3, "train", "migrated"),)
    alone = Rewritten(FileOutcome("a.py", "refused", kept))
    joint = {"a": Rewritten(FileOutcome("a.py", "migrated", taken), b"x", b"x")}
    assert list(less(alone, joint, "a")) == ["train was left alone: why"]
    cast = Rewritten(FileOutcome("a.py", "migrated", taken), b"x", b"x.float()")
    assert list(less(cast, joint, "a")) == ["`.float()` is added 0 times instead of 1"]
    assert not [*less(joint["a"], {"a": cast}, "a"), *less(alone, {"a": alone}, "a")]
    assert not list(less(cast, {**joint, "b": cast}, "a"))
