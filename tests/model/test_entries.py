"""Methods that call each other in circles: what is bound where they begin, and what asking costs."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable

import pytest

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


def in_circles(count: int) -> Callable[[], object]:
    """Each method calls three others: ways through the circle are more than can be gone."""
    calls = {one: [(one + step) % count for step in (1, 2, 5)] for one in range(count)}
    program = program_of(calls, set())
    return lambda: [certain(program, one) for one in calls]


def not_bound(count: int) -> Callable[[], object]:
    calls = {one: [(one + step) % count for step in (1, 2, 5)] for one in range(count)}
    program = program_of(calls, {count - 1})
    return lambda: [certain(program, one) for one in calls]


@pytest.mark.parametrize("shape", [in_circles, not_bound])
def test_each_place_of_a_circle_is_answered_once(
    shape: Callable[[int], Callable[[], object]],
) -> None:
    assert growth(shape, 12) < 2.6
