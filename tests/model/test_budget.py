"""The budget of an analysis: counted in questions, whoever asks, and kept by whoever asked first."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.model.budget import BudgetEndedError, at_most, for_loop, for_program, spend
from amp_migrate.model.devices.expressions import Devices
from amp_migrate.model.program import Program
from amp_migrate.model.tensors.inference import Inference


def ask() -> None:
    """One question about a value, which asks others."""
    program = Program("x = f()\ny = x\n", "a.py")
    [_, last] = program.module.tree.body
    assert isinstance(last, ast.Assign)
    program.values.of(last.value, program.module.root)


def test_questions_are_counted_whoever_asks_them() -> None:
    with at_most(100) as budget:
        ask()
    asked = 100 - budget.left
    assert asked > 1
    with at_most(asked):
        ask()
    with pytest.raises(BudgetEndedError), at_most(asked - 1):
        ask()


def test_what_is_spent_within_is_spent_around() -> None:
    with at_most(10) as around:
        with at_most(100) as within:
            assert within.left == 10
            spend()
        assert around.left == 9
        with at_most(3) as within:
            within.spend(3)
        assert around.left == 6


def test_a_budget_that_ended_within_leaves_the_rest_to_others() -> None:
    with at_most(10) as around:
        with pytest.raises(BudgetEndedError), at_most(2) as within:
            within.spend(5)
        spend()
    assert around.left == 4


def catches(steps: int) -> None:
    with pytest.raises(BudgetEndedError), at_most(steps) as within:
        within.spend(3)


def test_who_catches_the_end_of_a_budget_does_not_hide_it() -> None:
    with pytest.raises(BudgetEndedError), at_most(2):
        catches(100)
    with at_most(3):
        catches(2)


def test_the_steps_grow_with_the_text_and_with_nothing_else() -> None:
    text = "loss.backward()\n" * 10
    assert for_loop(text * 2) - for_loop(text) == for_loop(text) - for_loop("")
    assert for_program({"a": text, "b": text}) < for_program({"a": text})


CIRCLES = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size, device):
        super().__init__()
        self.layer = nn.Linear(size, size).to(device)

    def forward(self, x, deep=3):
        return self.again(self.layer(x), deep) if deep else x

    def again(self, y, deep):
        y = y / y.sum()
        return self.forward(y, deep - 1)


def there(device, net):
    return back(net, device) if net else device


def back(net, device):
    return there(device, net) if device else torch.device("cuda")


net = Net(4, there(torch.device("cpu"), None))
out = net(torch.ones(4).to(back(net, "cuda")))
"""


def answers(program: Program) -> list[object]:
    """What is said of every value of a program, where all of it runs in half precision."""
    inference = Inference(program, lambda _: "float16", lambda _: "float16")
    devices, said = Devices(program), list[object]()
    for node in program.module.parents:
        if isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            scope = program.module.scope_of(node)
            value = program.values.of(node, scope)
            said += [value.kind, value.name, value.cls and value.cls.name]
            said += [inference.of(node, scope), devices.of(node, scope)]
    return said


def test_after_a_budget_has_ended_anywhere_the_answers_are_the_same() -> None:
    with at_most(100_000) as budget:
        wanted = answers(Program(CIRCLES, "a.py"))
    asked = 100_000 - budget.left
    for steps in range(1, asked, max(asked // 60, 1)):
        program = Program(CIRCLES, "a.py")
        with pytest.raises(BudgetEndedError), at_most(steps):
            answers(program)
        assert answers(program) == wanted, steps
