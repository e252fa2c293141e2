"""Seeded faults: the guard sees every one, save those that only the protocol can see."""

from __future__ import annotations

import functools

import pytest

from amp_migrate.rewrite.proof import check
from tests.rewrite.proof.mutants import Mutant, mutants
from tests.rewrite.proof.pairs import PAIRS, Pair


@functools.cache
def faults(pair: Pair) -> tuple[Mutant, ...]:
    """Every mutant of the rewrite."""
    return tuple(mutants(pair.after))


def judged(judge: str) -> int:
    """How many mutants are this judge's to notice."""
    return sum(mutant.judge == judge for pair in PAIRS for mutant in faults(pair))


def test_there_are_many_faults() -> None:
    assert judged("guard") >= 1000
    assert judged("protocol") >= 50


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_guard_sees_every_fault(pair: Pair) -> None:
    wanted = [mutant for mutant in faults(pair) if mutant.judge == "guard"]
    missed = [
        mutant.change for mutant in wanted if not check(pair.before, mutant.text, pair.introduced)
    ]
    assert missed == []


@pytest.mark.parametrize("pair", PAIRS[:-1], ids=lambda pair: pair.name)
def test_lost_updates_are_left_to_the_protocol(pair: Pair) -> None:
    """Erased, they are the same program: the list that the protocol must catch."""
    left = [mutant for mutant in faults(pair) if mutant.judge == "protocol"]
    assert [
        mutant.change for mutant in left if check(pair.before, mutant.text, pair.introduced)
    ] == []
    for mutant in left:
        found = check(
            pair.before, mutant.text, pair.introduced, protocol=lambda text: ["update is missing"]
        )
        assert [failure.check for failure in found] == ["protocol"]
