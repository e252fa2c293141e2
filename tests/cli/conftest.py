"""Runs the command line in this process, with the stub as the migrator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import amp_migrate
from amp_migrate.cli import main
from amp_migrate.pipeline import workers as parallel
from tests.cli import stub


@dataclass(frozen=True)
class Ran:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


Run = Callable[..., Ran]


def python(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run another Python that imports this checkout."""
    environment = {**os.environ, "PYTHONPATH": str(Path(amp_migrate.__file__).parent.parent)}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Ctrl-C interrupts, even in tests that run in the background and inherit that it does not."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Run:
    """`run("--diff", path)`, from the folder `tmp_path`."""
    migrator = types.ModuleType("amp_migrate.pipeline.migrate")
    migrator.migrate_text = stub.migrate_text  # type: ignore[attr-defined]
    migrator.migrate_texts = stub.migrate_texts  # type: ignore[attr-defined]
    migrator.company_of = lambda *program: migrator.migrate_texts(*program).company  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "amp_migrate.pipeline.migrate", migrator)
    monkeypatch.setattr(parallel, "workers_for", lambda *_, **__: 0)
    monkeypatch.chdir(tmp_path)

    def run(*args: object) -> Ran:
        code = main([str(arg) for arg in args])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Ran(code, out, err.decode())

    return run
