"""A clip of a model whose class is out of sight is told where its optimizer has parts of it."""

from __future__ import annotations

import pytest

from tests.planner.programs import migrate

PROGRAM = """\
import torch
from models import build

model = build().cuda()
optimizer = torch.optim.Adam({given})
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    torch.nn.utils.clip_grad_norm_({read}, 1.0)
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("given", "read", "told"),
    [
        ("model.head.parameters()", "model.parameters()", 1),
        ("model.head.param_groups(0.1) + model.neck.param_groups(0.1)", "model.parameters()", 1),
        ("model.head.parameters()", "model.head.parameters()", 0),
        ("model.parameters()", "model.parameters()", 0),
        ("[p for n, p in model.named_parameters() if 'head' in n]", "model.parameters()", 0),
    ],
)
def test_notes(given: str, read: str, told: int) -> None:
    outcome = migrate(PROGRAM.format(given=given, read=read))
    assert outcome.status == "migrated"
    assert len([one for one in outcome.notes if "made of parts" in one.message]) == told
