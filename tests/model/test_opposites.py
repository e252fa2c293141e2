"""Conditions turned round."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.model.syntax.opposites import holds_otherwise, negated


@pytest.mark.parametrize(
    ("test", "opposite"),
    [
        ("not use_cuda", "use_cuda"),
        ("args.cpu", "not args.cpu"),
        ("gpu == -1", "gpu != -1"),
        ("gpu is None", "gpu is not None"),
        ("a < b", "a >= b"),
        ("a and b", "not (a and b)"),
        ("0 < a < b", "not 0 < a < b"),
    ],
)
def test_the_opposite(test: str, opposite: str) -> None:
    turned = negated(ast.parse(test, mode="eval").body)
    assert ast.unparse(turned) == opposite
    for values in ({"a": 1, "b": 2, "gpu": -1}, {"a": 2, "b": 1, "gpu": None}):
        names = {**values, "use_cuda": True, "args": type("Args", (), {"cpu": True})}
        assert bool(eval(test, {}, names)) is not bool(eval(ast.unparse(turned), {}, names))


@pytest.mark.parametrize(
    ("test", "other", "covers"),
    [
        ("not a", "a", True),
        ("b or not a", "a", True),
        ("gpu is None", "gpu is not None", True),
        ("b or gpu != 0", "gpu == 0", True),
        ("b and not a", "a", False),
        ("b or a", "a", False),
        ("not b", "a", False),
    ],
)
def test_what_holds_where_another_does_not(test: str, other: str, covers: bool) -> None:
    parts = (ast.parse(one, mode="eval").body for one in (test, other))
    assert holds_otherwise(*parts) is covers
