"""Changed settings are taken back exactly, and nothing else is."""

from __future__ import annotations

import pytest

from amp_migrate.rewrite.proof import Introduced, check
from amp_migrate.rewrite.proof.settings import Changed

ADDED = Changed("L.Trainer", 'precision="16-mixed"')
REPLACED = Changed("L.Trainer", 'precision="16-mixed"', "precision=32")
METHOD = Changed("learner", ".to_fp16()")
RIGHT = {
    "added": (ADDED, "t = L.Trainer(a=1)\n", 't = L.Trainer(a=1, precision="16-mixed")\n'),
    "replaced": (
        REPLACED,
        "t = L.Trainer(precision=32, a=1)\n",
        't = L.Trainer(precision="16-mixed", a=1)\n',
    ),
    "a method": (METHOD, "t = learner(a)\n", "t = learner(a).to_fp16()\n"),
}
WRONG = {
    "another call": (ADDED, "t = L.Other(a=1)\n", 't = L.Other(a=1, precision="16-mixed")\n'),
    "another value": (ADDED, "t = L.Trainer(a=1)\n", 't = L.Trainer(a=1, precision="64")\n'),
    "another old value": (
        REPLACED,
        "t = L.Trainer(precision=16)\n",
        't = L.Trainer(precision="16-mixed")\n',
    ),
    "another argument lost": (
        ADDED,
        "t = L.Trainer(a=1)\n",
        't = L.Trainer(precision="16-mixed")\n',
    ),
    "another method": (METHOD, "t = learner(a)\n", "t = learner(a).to_fp32()\n"),
    "a method on another call": (METHOD, "t = make(a)\n", "t = make(a).to_fp16()\n"),
}


@pytest.mark.parametrize(("change", "before", "after"), RIGHT.values(), ids=RIGHT)
def test_declared(change: Changed, before: str, after: str) -> None:
    assert check(before, after, Introduced(settings=frozenset({change}))) == ()
    assert check(before, after, Introduced()) != ()


@pytest.mark.parametrize(("change", "before", "after"), WRONG.values(), ids=WRONG)
def test_anything_else_is_a_difference(change: Changed, before: str, after: str) -> None:
    assert check(before, after, Introduced(settings=frozenset({change}))) != ()
