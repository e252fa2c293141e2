"""The proof of step one finds every slip of the edits."""

from __future__ import annotations

import pytest

from amp_migrate.apex import unapex
from amp_migrate.apex.erase import proved

PROGRAM = """\
import torch
try:
    from apex import amp
    from apex.optimizers import FusedAdam
    has_apex = True
except ImportError:
    has_apex = False

optimizer = FusedAdam(model.parameters(), lr=1e-3, weight_decay=0.1)
if args.fp16:
    model, optimizer = amp.initialize(model, optimizer)
for x, y in loader:
    loss = criterion(model(x), y)
    if args.fp16 and has_apex:
        with amp.scale_loss(loss / 2, optimizer) as scaled_loss:
            scaled_loss.backward()
    else:
        (loss / 2).backward()
    clip(amp.master_params(optimizer), 1.0)
    optimizer.step()
"""
PLAIN = """\
import torch
has_apex = True

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
for x, y in loader:
    loss = criterion(model(x), y)
    (loss / 2).backward()
    clip(model.parameters(), 1.0)
    optimizer.step()
"""


def test_the_program_is_proved() -> None:
    plain = unapex(PROGRAM, "train.py")
    assert plain is not None
    assert plain.text == PLAIN
    assert proved(PROGRAM, PLAIN) is None


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(loss / 2).backward()", "loss.backward()"),
        ("    (loss / 2).backward()\n", ""),
        ("    (loss / 2).backward()\n", "    (loss / 2).backward()\n    (loss / 2).backward()\n"),
        ("AdamW", "Adam"),
        (", weight_decay=0.1", ""),
        ("clip(model.parameters(), 1.0)", "clip(other.parameters(), 1.0)"),
        ("    clip(model.parameters(), 1.0)\n", ""),
        ("    optimizer.step()\n", ""),
        ("loss = criterion(model(x), y)", "loss = criterion(model(y), x)"),
        ("has_apex = True", "from apex import amp\nprint(amp.state_dict)"),
        ("import torch\n", "import torch\nmodel = net\n"),
        ("    optimizer.step()\n", "optimizer.step()\n"),
    ],
)
def test_a_slip_is_found(right: str, wrong: str) -> None:
    assert right in PLAIN
    assert proved(PROGRAM, PLAIN.replace(right, wrong)) is not None
