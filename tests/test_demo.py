"""`make demo`: about one screen, on programs that do what it shows."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text
from tests.harness.worker import Worker

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "docs/demo"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    tool = tmp_path_factory.mktemp("bin") / "amp-migrate"
    tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m amp_migrate "$@"\n')
    tool.chmod(0o755)
    ran = subprocess.run(
        ["sh", ".ci/demo", tool],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not ran.stderr
    return ran.stdout


def test_it_is_about_one_screen(shown: str) -> None:
    assert len(shown.splitlines()) < 100


def test_it_shows_each_thing(shown: str) -> None:
    for part in (
        "$ amp-migrate --diff plain.py\n+scaler = torch.amp.GradScaler(",
        "+        scaler.unscale_(optimizer)",
        "+    scaler.step(optimizer_g)\n+    scaler.update()",
        "+        train_epoch(model, loader, optimizer, device, scaler=scaler)",
        "step-with-closure",
        "Why is it refused?",
        "error clip-without-unscale",
        "Fixed 1",
    ):
        assert part in shown


@pytest.mark.parametrize("name", ["plain", "accumulate", "gan", "closure", "mistake"])
def test_its_programs_run(name: str, tmp_path: Path) -> None:
    text = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    worker = Worker()
    for number, program in enumerate((text, migrate_text(text, f"{name}.py", Settings()).output)):
        file = tmp_path / f"{name}{number}.py"
        file.write_text(program or text)
        assert worker.run(file, "off").error is None
    worker.close()
