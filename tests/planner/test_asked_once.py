"""What is looked for in the whole program is looked for once, not for each of its loops."""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

import pytest

from amp_migrate.config import Settings
from amp_migrate.model import origins
from amp_migrate.model.program import Program
from amp_migrate.model.tensors import held
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.planner import gradient_hooks
from amp_migrate.planner.half_safety import gradients_inside
from amp_migrate.planner.plan import Planner

LOOP = """\
def train_{0}(loader):
    model = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for data, target in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data.cuda()), target.cuda())
        loss.backward()
        optimizer.step()


"""


@pytest.mark.parametrize("hook", ["", "weight.register_hook(print)\n"])
def test_hooks_are_looked_for_once(monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    asked: Counter[int] = Counter()
    sees_scaled = gradient_hooks._sees_scaled

    def counted(call: ast.Call) -> str | None:
        asked[id(call)] += 1
        return sees_scaled(call)

    monkeypatch.setattr(gradient_hooks, "_sees_scaled", counted)
    text = "import torch\n\n\n" + LOOP.format(1) + LOOP.format(2) + LOOP.format(3) + hook
    program = Program(text, "train.py")
    plan = Planner(program, Settings()).plan()["train.py"]
    expected = [("refused", "gradient-mutated")] * 3 if hook else [("migrated", None)] * 3
    assert [(loop.status, loop.reason) for loop in plan.loops] == expected
    assert set(asked.values()) == {1}


def runs_asked(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[int, list[str | None]]:
    """How often what a whole loop may run is asked for gradients, and what becomes of the loops."""
    asked = 0
    perhaps_reachable = gradients_inside.perhaps_reachable

    def counted(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        return perhaps_reachable(*given)

    monkeypatch.setattr(gradients_inside, "perhaps_reachable", counted)
    plan = Planner(Program(text, "train.py"), Settings()).plan()["train.py"]
    return asked, [loop.reason for loop in plan.loops]


FORCES = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.autograd.grad(x.sum(), x, create_graph={})[0]


"""


def test_without_gradients_of_gradients_nobody_asks_what_a_loop_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = FORCES.format("False") + LOOP.format(1) + LOOP.format(2)
    assert runs_asked(monkeypatch, text) == (0, [None, None])


def test_with_them_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    second = LOOP.format(2).replace("torch.nn.Linear(2, 2)", "Net()")
    text = FORCES.format("True") + LOOP.format(1) + second
    assert runs_asked(monkeypatch, text) == (1, [None, "double-backward"])


def test_what_is_put_into_holders_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[int] = Counter()
    place = held._place

    def counted(node: ast.AST) -> held.Place:
        asked[id(node)] += 1
        return place(node)

    monkeypatch.setattr(held, "_place", counted)
    puts = "".join(f"seen['{one}'] = one\n" for one in "abc")
    reads = "".join(f"show(seen['{one}'])\n" for one in "abcdef")
    program = Program(f"seen = {{}}\n{puts}{reads}", "train.py")
    inference = Inference(program, lambda _: None, lambda _: None)
    for statement in program.module.tree.body[4:]:
        assert isinstance(statement, ast.Expr)
        held.held_half(inference, statement.value)
        assert isinstance(statement.value, ast.Call)
        held.held_half(inference, statement.value.args[0], whole=True)
    holders = [n.value for n in ast.walk(program.module.tree) if isinstance(n, ast.Subscript)]
    assert [asked[id(one)] for one in holders] == [1] * 3 + [0] * 6


def test_ways_of_a_value_through_calls_are_followed_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0
    given = origins._given

    def counted(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        return given(*args)

    monkeypatch.setattr(origins, "_given", counted)
    steps = [f"def f{n}(a):\n    f{n - 1}(a)\n    f{n - 1}(a)\n" for n in range(1, 8)]
    text = "def f0(a):\n    a.cuda\n" + "".join(steps) + "f7(args)\n"
    program = Program(text, "train.py")
    (read,) = (n for n in ast.walk(program.module.tree) if isinstance(n, ast.Attribute))
    origins.origin_at(program, "a.cuda", read)
    assert asked <= 16
