"""Seeded faults: the guard sees every one, save those that only the protocol can see."""

from __future__ import annotations

import pytest

from amp_migrate.guard import check
from tests.guard.mutants import Mutant, mutants
from tests.guard.pairs import PAIRS, Pair

MUTANTS = {pair.name: list(mutants(pair.after)) for pair in PAIRS}


def of(judge: str) -> list[tuple[Pair, Mutant]]:
    """All mutants that are this judge's to notice."""
    return [(pair, mutant) for pair in PAIRS for mutant in MUTANTS[pair.name] if mutant.judge == judge]


def test_there_are_many_faults() -> None:
    assert len(of("guard")) >= 300
    assert len(of("protocol")) >= 50


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_guard_sees_every_fault(pair: Pair) -> None:
    missed = [
        mutant.change
        for mutant in MUTANTS[pair.name]
        if mutant.judge == "guard" and not check(pair.before, mutant.text, pair.introduced)
    ]
    assert missed == []
