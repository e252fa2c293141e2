"""Steps of what nothing shows are told: an optimizer among them would need the scaler."""

from __future__ import annotations

import pytest

from tests.planner.programs import migrate

PROGRAM = """\
import torch
from elsewhere import make

model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
{made}
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    {stepped}
"""


@pytest.mark.parametrize(
    ("made", "stepped", "told"),
    [
        ("other = make(model)", "other.step()", True),
        ("scheduler = make(optimizer)", "scheduler.step()", False),
        ("env = make()", "env.step(x)", False),
        ("meter = torch.optim.lr_scheduler.StepLR(optimizer, 1)", "meter.step()", False),
        ("", "torch.profiler.step()", False),
    ],
)
def test_only_what_may_be_an_optimizer_is_told(made: str, stepped: str, told: bool) -> None:
    outcome = migrate(PROGRAM.format(made=made, stepped=stepped))
    assert outcome.status == "migrated"
    assert any("if it is an optimizer" in note.message for note in outcome.notes) is told
