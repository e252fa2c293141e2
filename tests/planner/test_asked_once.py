"""What is looked for in the whole program is looked for once, not for each of its loops."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.planner import gradient_hooks
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
