"""The requirements above the files of a tree tell how AMP is written in it."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import python

PROGRAM = """\
import torch
import torch.nn.functional as F

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""


def _written(tmp_path: Path, requirements: str) -> str:
    (tmp_path / "requirements.txt").write_text(requirements)
    file = tmp_path / "package" / "train.py"
    file.parent.mkdir()
    file.write_text(PROGRAM)
    assert python("-m", "amp_migrate", ".", cwd=tmp_path).returncode == 0
    return file.read_text()


def test_an_older_torch(tmp_path: Path) -> None:
    assert "scaler = torch.cuda.amp.GradScaler()" in _written(tmp_path, "torch>=1.10,<1.13\n")


def test_a_newer_torch(tmp_path: Path) -> None:
    assert 'scaler = torch.amp.GradScaler("cuda")' in _written(tmp_path, "torch>=2.4\n")
