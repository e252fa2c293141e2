"""Functions that variables hold: what they may be, and what asking costs where each is made of all
that came before it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from amp_migrate.model.calls.targets import kept_functions
from amp_migrate.model.program import Program
from tests.cost import growth


def chosen(ways: int, steps: int) -> Program:
    """`g = f` or `h`, and so on: each of several names is any of those of the step before."""
    lines = ["def first(x):\n    return x\n", "def second(x):\n    return -x\n"]
    lines += [f"a0_{way} = {'second' if way else 'first'}\n" for way in range(ways)]
    for step in range(1, steps):
        for way in range(ways):
            lines += [
                f"if x == {one}:\n    a{step}_{way} = a{step - 1}_{one}\n" for one in range(ways)
            ]
    return Program("".join(lines) + f"call(a{steps - 1}_0)\n", "chosen.py")


def kept(program: Program) -> set[str]:
    call = program.module.tree.body[-1]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    found = kept_functions(program, call.value.args[0], program.module.root)
    return {one.name for _, one in found}


def test_any_that_was_given_is_kept() -> None:
    assert kept(chosen(3, 4)) == {"first", "second"}
    assert kept(chosen(1, 4)) == {"first"}


def test_what_is_too_far_is_not_told() -> None:
    assert kept(chosen(1, 20)) == set()


def asked(ways: int) -> Callable[[], object]:
    program = chosen(ways, 7)
    return lambda: kept(program)


def test_each_part_is_asked_once() -> None:
    assert growth(asked, 3) < 8  # there are sixty-four times as many ways
