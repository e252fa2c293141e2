"""How far numbers reach is followed once through callers that hand the same values on."""

from __future__ import annotations

from typing import Any

import pytest

from amp_migrate.config import Settings
from amp_migrate.model.half_safety import extents
from amp_migrate.pipeline.migrate import migrate_text

HEAD = """import torch

model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step_0(x):
    return model(x)
"""
STEP = """

def step_{number}(x):
    return step_{below}(x) + step_{below}(x)
"""
LOOP = """

for x in loader:
    optimizer.zero_grad()
    loss = step_{last}(x).mean()
    loss.backward()
    optimizer.step()
"""


def test_extents_are_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    follow = extents._Extents._followed

    def counted(*args: Any) -> float:
        asked.append(args)
        return follow(*args)

    monkeypatch.setattr(extents._Extents, "_followed", counted)
    steps = "".join(STEP.format(number=n, below=n - 1) for n in range(1, 10))
    outcome = migrate_text(HEAD + steps + LOOP.format(last=9), "train.py", Settings())
    assert outcome.status == "migrated"
    assert 0 < len(asked) < 200
