"""Paths that a quick look keeps apart are those that could not be joined."""

from __future__ import annotations

import random

from amp_migrate.protocol.paths import Path, Val, _stay_apart, merged


def path(facts: list[tuple[str, bool]]) -> Path:
    """A path on which conditions were decided in this order."""
    made = Path()
    for text, way in facts:
        made.learn(text, way, ())
    return made


def can_be_joined(one: Path, other: Path) -> bool:
    left, right = one.facts - other.facts, other.facts - one.facts
    if not left or not right:
        return True
    return len(left) == len(right) == 1 and {t for t, _ in left} == {t for t, _ in right}


def test_what_is_kept_apart_cannot_be_joined() -> None:
    chance = random.Random(7)
    told = 0
    for _ in range(4000):
        both = [
            path(
                [
                    (chance.choice("abcd"), chance.random() < 0.5)
                    for _ in range(chance.randint(0, 4))
                ]
            )
            for _ in range(2)
        ]
        if _stay_apart(*both):
            told += 1
            assert not can_be_joined(*both)
    assert told > 500


def test_arms_of_a_chain_stay_apart_and_the_two_ways_of_a_test_become_one() -> None:
    arms = [
        path([*((f"x == {i}", False) for i in range(n)), (f"x == {n}", True)]) for n in range(5)
    ]
    assert all(_stay_apart(one, other) for one in arms for other in arms if one is not other)
    last = path([("x == 0", False)])
    assert [one.facts for one in merged([arms[0], last], 9)] == [frozenset()]


def test_more_states_than_are_followed_forget_what_names_hold() -> None:
    many = []
    for turn in range(20):
        one = path([(f"x == {turn}", True)])
        one.env["name"] = Val(text=f"value {turn}")
        one.env["same"] = Val(text="same")
        many.append(one)
    (joint,) = merged(many, 9)
    assert (joint.env, joint.facts, joint.sure) == ({"same": Val(text="same")}, frozenset(), False)


def test_states_of_scalers_are_kept_apart() -> None:
    many = []
    for turn in range(20):
        one = path([])
        one.env["name"] = Val(text=f"value {turn}")
        one.lost = frozenset({"scaler"}) if turn % 2 else frozenset()
        many.append(one)
    assert [one.lost for one in merged(many, 9)] == [frozenset(), frozenset({"scaler"})]
