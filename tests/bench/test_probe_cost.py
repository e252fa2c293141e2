"""The bench of the probe's cost runs, and what it compares differs only in being watched."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")


@pytest.mark.parametrize("loop", ["float32", "float16"])
def test_one_row(loop: str) -> None:
    order = json.dumps(["MLP, 8 layers", loop, "cpu", 24])
    command = [sys.executable, "-m", "tests.bench.probe_cost", "--once", order]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, measured, stated = json.loads(done.stdout)
    assert seconds > 0
    assert 0 <= measured < 1
    assert 0 < stated < 1
