"""Correct rewrites pass, whatever shape they have."""

from __future__ import annotations

import ast
import dataclasses

import pytest

from amp_migrate.rewrite.proof import Introduced, check, erase
from tests.rewrite.proof.pairs import PAIRS, Pair


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_correct_rewrite_passes(pair: Pair) -> None:
    assert check(pair.before, pair.after, pair.introduced) == ()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_declared_sources_are_optional(pair: Pair) -> None:
    facts = dataclasses.replace(pair.introduced, regions=None, constructors=None, values=None)
    assert check(pair.before, pair.after, facts) == ()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_nothing_declared_nothing_erased(pair: Pair) -> None:
    tree = ast.parse(pair.after)
    nothing = Introduced(regions=frozenset(), constructors=frozenset())
    assert ast.dump(erase(tree, nothing)) == ast.dump(ast.parse(pair.after))
    assert check(pair.before, pair.after, nothing)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_original_itself_is_unchanged(pair: Pair) -> None:
    facts = dataclasses.replace(pair.introduced, float_casts=0)
    assert check(pair.before, pair.before, facts) == ()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_rewrite_backwards_fails(pair: Pair) -> None:
    assert [failure.check for failure in check(pair.after, pair.before, pair.introduced)]
