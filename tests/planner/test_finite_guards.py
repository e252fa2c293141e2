"""Guards that end a run at a loss that is not finite are told; those on data, or that go on, are
not.
"""

from __future__ import annotations

import pytest

from tests.planner.programs import migrate

PROGRAM = """\
import math
import sys

import torch

model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    {guard}
    loss.backward()
    optimizer.step()
"""


def notes(guard: str) -> list[str]:
    outcome = migrate(PROGRAM.format(guard=guard))
    assert outcome.status == "migrated"
    return [note.message for note in outcome.notes if "not finite" in note.message]


@pytest.mark.parametrize(
    "guard",
    [
        "if math.isnan(loss.item()): raise ValueError",
        "if not torch.isfinite(loss): sys.exit(1)",
        "if torch.isfinite(loss).all(): pass\n    else: raise ValueError",
        "assert not loss.isnan().any()",
        "if math.isnan(float(loss)): break",
    ],
)
def test_a_guard_is_told(guard: str) -> None:
    assert len(notes(guard)) == 1


@pytest.mark.parametrize(
    "guard",
    [
        "if math.isnan(loss.item()): continue",
        "if math.isnan(loss.item()):\n        for _ in y: break",
        "if torch.isnan(x).any(): raise ValueError",
        "assert x.shape == y.shape",
        "if loss.item() > 100: raise ValueError",
    ],
)
def test_what_goes_on_or_asks_for_data_is_not(guard: str) -> None:
    assert notes(guard) == []
