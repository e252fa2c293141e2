"""Facts that are defined by one another: found once each, whatever leads to them."""

from __future__ import annotations

import random

from amp_migrate.model.tensors.fact import FLOAT, FLOAT16, DType, Fact, join
from amp_migrate.model.tensors.fixpoint import Fixpoint


class Calls:
    """Parameters by what callers pass: `edges`, and facts of those that get something else, too."""

    def __init__(self, edges: dict[str, str], given: dict[str, Fact]) -> None:
        self.edges, self.given = edges, given
        self.facts = Fixpoint()
        self.computed = 0

    def of(self, name: str) -> Fact:
        return self.facts.of(name, lambda: self._compute(name))

    def _compute(self, name: str) -> Fact:
        self.computed += 1
        own = [self.given[name]] if name in self.given else []
        return join([*own, *(self.of(one) for one in self.edges[name])])


def test_functions_that_all_call_one_another_cost_one_look_each_a_round() -> None:
    names = "abcdefghijklmnopqrst"
    calls = Calls(dict.fromkeys(names, names), {"k": FLOAT16})
    assert calls.of("a").dtypes == DType.FLOAT16
    assert calls.computed <= 4 * len(names)


def test_what_was_found_on_the_way_is_complete() -> None:
    calls = Calls({"a": "b", "b": "ac", "c": ""}, {"c": FLOAT, "a": FLOAT16})
    assert calls.of("a").dtypes == DType.FLOAT16 | DType.FLOAT
    assert calls.of("b").dtypes == DType.FLOAT16 | DType.FLOAT


def test_without_a_circle_each_is_computed_once() -> None:
    calls = Calls({"a": "bb", "b": "cc", "c": ""}, {"c": FLOAT})
    assert calls.of("a") == FLOAT
    assert calls.computed == 3


def test_what_rests_on_no_circle_is_computed_once_beside_one() -> None:
    line = "cdefghijklmnopqrstuvwxyz"
    edges = {"a": "b", "b": "ac", **dict(zip(line, [*line[1:], ""], strict=True))}
    calls = Calls(edges, {"z": FLOAT, "a": FLOAT16})
    assert calls.of("a").dtypes == DType.FLOAT16 | DType.FLOAT
    assert calls.computed <= 3 * len("ab") + len(line)


def test_circles_in_a_circle_know_all_of_it() -> None:
    edges = {"a": "b", "b": "cd", "c": "bd", "d": "ae", "e": "e"}
    for first in "abcd":
        calls = Calls(edges, {"c": FLOAT, "e": FLOAT16})
        found = [calls.of(first), *map(calls.of, "abcd")]
        assert {one.dtypes for one in found} == {DType.FLOAT16 | DType.FLOAT}


def test_a_range_that_grows_is_given_up_and_the_dtype_stays() -> None:
    facts = Fixpoint()

    def counted() -> Fact:
        held = facts.of("i", counted)
        low, high = held.bounds or (0.0, 0.0)
        return Fact(DType.FLOAT, bounds=(low, high + 1))

    assert facts.of("i", counted).dtypes == DType.FLOAT


def test_what_rests_on_a_changed_key_is_forgotten_and_the_rest_stays() -> None:
    facts, asked = Fixpoint(), list[str]()
    reads = {"loss": "logits", "logits": "x", "x": "", "labels": ""}

    def find(name: str) -> Fact:
        asked.append(name)
        if reads[name]:
            return facts.of(("", reads[name]), lambda: find(reads[name]))
        facts.read("region of x")
        return FLOAT

    def ask() -> list[str]:
        asked.clear()
        for name in ("loss", "labels"):
            facts.of(("", name), lambda name=name: find(name))
        return asked

    assert ask() == ["loss", "logits", "x", "labels"]
    facts.forget({"logits"})
    assert ask() == ["loss", "logits"]
    facts.forget({"region of x"})
    assert ask() == ["loss", "logits", "x", "labels"]
    assert ask() == []


def test_graphs_of_all_kinds_have_their_least_solution() -> None:
    for seed in range(3000):
        calls, wanted = _graph(random.Random(seed))
        for name in wanted:
            assert calls.of(name).dtypes == wanted[name], (seed, calls.edges, calls.given)


def _graph(draw: random.Random) -> tuple[Calls, dict[str, DType]]:
    """Functions that call one another, and the dtypes that each is given in the end."""
    names = "abcdefg"
    edges = {one: "".join(draw.sample(names, draw.randint(0, 3))) for one in names}
    given = {one: draw.choice([FLOAT, FLOAT16]) for one in draw.sample(names, 2)}
    ends = {one: FLOAT for one in names if not edges[one]}
    given = {**ends, **given}
    wanted = {one: given[one].dtypes if one in given else DType.NONE for one in names}
    for _ in names:
        for one in names:
            for other in edges[one]:
                wanted[one] |= wanted[other]
    return Calls(edges, given), wanted
