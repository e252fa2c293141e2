"""Objects that functions make and hand on in circles: what may be bound in them, and what asking
costs.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable

import pytest

from amp_migrate.model.dataflow.reach import Reach
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.displays import Displays
from tests.cost import growth
from tests.model.test_entries import Calls, circles, reached


def made_round(calls: Calls, made: set[int]) -> Program:
    """Functions that each return an object of their own, those of `made` with `x`, or what another
    function does, as `calls` says.
    """
    lines = ["class C:\n    pass\n"]
    for one, others in calls.items():
        bound = f"    c.x = {one}\n" if one in made else ""
        lines.append(f"def f{one}(kind):\n    c = C()\n{bound}")
        lines += [f"    if kind == {k}:\n        c = f{k}(kind)\n" for k in others]
        lines.append("    return c\n")
    lines += [f"c{one} = f{one}(0)\nprint(c{one}.x)\n" for one in calls]
    return Program("".join(lines), "round.py")


def attribute(program: Program, one: int) -> Reach:
    reads = (n for n in ast.walk(program.module.tree) if isinstance(n, ast.Attribute))
    read = next(n for n in reads if ast.unparse(n) == f"c{one}.x")
    return program.reaching.at(read, f"c{one}.x")


def values(found: Reach) -> set[str]:
    return {ast.unparse(b.value) for b in found.bindings if b.value is not None}


@pytest.mark.parametrize("seed", range(60))
def test_all_that_a_circle_may_have_bound_is_told(seed: int) -> None:
    calls, made = circles(seed)
    program = made_round(calls, made)
    order = list(calls)
    random.Random(seed).shuffle(order)
    for one in order:
        found = attribute(program, one)
        assert values(found) == {str(k) for k in reached(calls, {one}) & made}, (calls, made)
        assert not found.certain or reached(calls, {one}) <= made


def test_without_a_circle_it_is_certain() -> None:
    program = made_round({0: [1, 2], 1: [2], 2: []}, {0, 1, 2})
    assert attribute(program, 0).certain
    assert values(attribute(program, 0)) == {"0", "1", "2"}
    assert not attribute(made_round({0: [1], 1: []}, {0}), 0).certain


def each_calls_all(count: int) -> Callable[[], object]:
    """There are more ways through the circle than can be gone."""
    program = made_round({one: list(range(count)) for one in range(count)}, {0})
    return lambda: attribute(program, 0)


def test_each_object_of_a_circle_is_followed_once() -> None:
    assert growth(each_calls_all, 3) < 5  # there are four times as many calls


def test_what_is_handed_on_too_often_is_not_followed_to_its_end() -> None:
    line = {one: [one + 1] for one in range(200)} | {200: []}
    assert "0" in values(attribute(made_round(line, {0, 200}), 0))
    assert not attribute(made_round(line, set(line)), 0).certain


def test_a_function_that_gives_back_its_own_result_ends() -> None:
    text = "class C:\n    pass\ndef f(n):\n    c = C()\n    c.x = 1\n    if n:\n        return c\n    return f(n - 1)\nc0 = f(3)\nprint(c0.x)\n"
    found = attribute(Program(text, "own.py"), 0)
    assert (values(found), found.certain) == ({"1"}, False)
    alone = text.replace("    if n:\n        return c\n", "")
    assert values(attribute(Program(alone, "own.py"), 0)) == set()


def handed_on(width: int) -> Callable[[], object]:
    """A configuration that passes through four functions, each of which calls the next `width` times."""
    lines = ["CONFIG = {'lr': 1}\n"]
    for one in range(4):
        calls = f"    f{one + 1}(config)\n" * width if one < 3 else "    print(config)\n"
        lines.append(f"def f{one}(config):\n{calls}")
    program = Program("".join([*lines, "f0(CONFIG)\n"]), "handed.py")
    read = next(
        n
        for n in ast.walk(program.module.tree)
        if isinstance(n, ast.Call) and ast.unparse(n) == "print(config)"
    )
    assert isinstance(read.args[0], ast.Name)
    place = read.args[0]
    return lambda: Displays(program).of(place, "config").found


def test_what_a_parameter_holds_is_followed_once_for_each_call() -> None:
    assert growth(handed_on, 8) < 3  # eight times as many ways lead to it
    found = Displays(
        program := Program("C = {}\ndef f(c):\n    print(c)\n    f(c)\nf(C)\n", "c.py")
    )
    read = next(
        n
        for n in ast.walk(program.module.tree)
        if ast.unparse(n) == "print(c)" and isinstance(n, ast.Call)
    )
    assert [ast.unparse(one) for one in found.of(read.args[0], "c").found] == ["{}"]
