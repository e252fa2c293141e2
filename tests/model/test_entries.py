"""Methods that call each other in circles: what is bound where they begin, and what asking costs."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable

import pytest

from amp_migrate.model.dataflow.reach import Reach
from amp_migrate.model.program import Program
from tests.cost import growth

Calls = dict[int, list[int]]


def program_of(calls: Calls, late: set[int]) -> Program:
    """A class whose constructor runs `m0`, whose methods call each other as `calls` says and read
    `x`, which is there at once for the methods that are not run by one of `late`: these are run
    by the constructor before it sets `x`.
    """
    early = "".join(f"        self.m{one}()\n" for one in sorted(late))
    lines = [f"class A:\n    def __init__(self):\n{early}        self.x = 1\n        self.m0()\n"]
    for method, others in calls.items():
        run = "".join(f"        self.m{other}()\n" for other in others)
        lines.append(f"    def m{method}(self):\n{run}        print(self.x)\n")
    return Program("".join(lines) + "A()\n", "circles.py")


def certain(program: Program, method: int) -> bool:
    scope = next(
        s
        for s in program.module.scopes.values()
        if isinstance(s.node, ast.FunctionDef) and s.node.name == f"m{method}"
    )
    return program.reaching.on_entry(scope, "self.x").certain


def reached(calls: Calls, starts: set[int]) -> set[int]:
    """The methods that run, directly or through others, where some are started."""
    found, waiting = set(starts), list(starts)
    while waiting:
        for other in calls[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def circles(seed: int) -> tuple[Calls, set[int]]:
    chance = random.Random(seed)
    count = chance.randint(2, 7)
    calls = {
        one: [chance.randrange(count) for _ in range(chance.randint(0, 3))] for one in range(count)
    }
    calls[0] += [one for one in range(count) if chance.random() < 0.5]
    return calls, {one for one in range(1, count) if chance.random() < 0.2}


@pytest.mark.parametrize("seed", range(60))
def test_what_is_bound_is_what_no_early_call_reaches(seed: int) -> None:
    calls, late = circles(seed)
    program = program_of(calls, late)
    order = list(calls)
    random.Random(seed).shuffle(order)
    early, all_run = reached(calls, late), reached(calls, late | {0})
    for method in order:
        if method in all_run:
            assert certain(program, method) == (method not in early), (calls, late, method)


def test_both_answers_are_tried() -> None:
    found = [bool(reached(*circles(seed))) for seed in range(60)]
    assert 15 < sum(found) < 55


def handed_round(calls: Calls, starts: dict[int, bool]) -> Program:
    """Functions that hand what they are given to each other as `calls` says; each of `starts` is
    given an object of its own, with `x` or without.
    """
    lines = ["class C:\n    pass\n"]
    for one, others in calls.items():
        run = "".join(f"    f{other}(cfg)\n" for other in others)
        lines.append(f"def f{one}(cfg):\n{run}    print(cfg.x)\n")
    for one, is_set in starts.items():
        lines.append(f"c{one} = C()\n" + f"c{one}.x = {one}\n" * is_set + f"f{one}(c{one})\n")
    return Program("".join(lines), "round.py")


def attribute(program: Program, one: int) -> Reach:
    scope = next(s for s in program.module.scopes.values() if s.qualname == f"f{one}")
    return program.reaching.on_entry(scope, "cfg.x")


@pytest.mark.parametrize("seed", range(120))
def test_what_is_handed_round_is_bound_by_all_that_may_have_come(seed: int) -> None:
    calls, late = circles(seed)
    chance = random.Random(seed + 1000)
    starts = {one: chance.random() < 0.7 for one in {0, *late}}
    program = handed_round(calls, starts)
    order = list(calls)
    chance.shuffle(order)
    called = {other for others in calls.values() for other in others}
    never_run = {one for one in calls if one not in called | starts.keys()}
    given_nothing = never_run | {one for one in starts if not starts[one]}
    for one in order:
        come = [start for start in starts if one in reached(calls, {start})]
        if come:
            found = attribute(program, one)
            values = {ast.unparse(b.value) for b in found.bindings if b.value is not None}
            assert values == {str(start) for start in come if starts[start]}, (calls, starts, one)
            assert found.certain == (one not in reached(calls, given_nothing)), (calls, starts)


def in_circles(count: int) -> Callable[[], object]:
    """Each method calls three others: ways through the circle are more than can be gone."""
    calls = {one: [(one + step) % count for step in (1, 2, 5)] for one in range(count)}
    program = program_of(calls, set())
    return lambda: [certain(program, one) for one in calls]


def not_bound(count: int) -> Callable[[], object]:
    calls = {one: [(one + step) % count for step in (1, 2, 5)] for one in range(count)}
    program = program_of(calls, {count - 1})
    return lambda: [certain(program, one) for one in calls]


def round_and_round(count: int) -> Callable[[], object]:
    calls = {one: [(one + step) % count for step in (1, 2, 5)] for one in range(count)}
    program = handed_round(calls, {0: True})
    return lambda: [attribute(program, one) for one in calls]


def round_without(count: int) -> Callable[[], object]:
    calls = {one: [(one + step) % count for step in (1, 2, 5)] for one in range(count)}
    program = handed_round(calls, {0: True, count - 1: False})
    return lambda: [attribute(program, one) for one in calls]


@pytest.mark.parametrize("shape", [in_circles, not_bound, round_and_round, round_without])
def test_each_place_of_a_circle_is_answered_once(
    shape: Callable[[int], Callable[[], object]],
) -> None:
    assert growth(shape, 12) < 2.6
