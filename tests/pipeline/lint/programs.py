"""Small programs with known findings."""

from __future__ import annotations

OLD = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
"""`deprecated-cuda-amp` in line 3, with a safe fix."""

NEW = 'import torch\n\nscaler = torch.amp.GradScaler("cuda")\n'

BCE = """\
import torch
import torch.nn.functional as F


def loss_of(scores, targets):
    with torch.autocast("cuda", dtype=torch.float16):
        return F.binary_cross_entropy(scores, targets)
"""
"""`bce-under-autocast` in line 7, with an unsafe fix."""

PLAIN = """\
import torch
from torch import nn

model = nn.Linear(10, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 10, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
"""`loop-without-amp` in line 9."""

BROKEN = "import torch\n\nloss.backward(\n"
"""`syntax` in line 3."""
