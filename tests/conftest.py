"""What many tests use: little programs, and a migrator that stands in for the real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PLAIN = "import torch\nmodel = torch.nn.Linear(1, 1)\n"
LOOP = "for x in data:\n    loss = model(x)\n    loss.backward()\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file below `tmp_path`, with its folders."""

    def write(name: str, content: str | bytes = LOOP) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
