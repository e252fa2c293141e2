"""The test's end of the run: asks the zygote for a run of a program and reads back what it
recorded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from amp_migrate.runtime.run_folder import run_folder

Mode = Literal["off", "on"]
"""off: no accelerator, so AMP switches itself off. on: a made-up CUDA device that computes on the
CPU, AMP in force.
"""

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Trace:
    """What one run did. Tensors are told by the SHA-256 of their bytes; losses are those before
    scaling.
    """

    error: str | None
    losses: list[float]
    loss_digests: list[str]
    parameters: list[list[str]]
    """Per optimizer, in the order of construction: a digest of each parameter at the end."""
    initial_parameters: list[list[str]]
    steps: int
    """Steps that optimizers really took (a scaler skips those whose gradients overflowed)."""
    autocast_dtypes: list[str]
    scales: list[float]
    """The scale of each enabled scaler at the end."""
    calls: dict[str, int]
    violations: list[str]


class Worker:
    """A process that has imported torch and forks a child for every run: torch's import is paid
    for once.
    """

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if sys.platform == "linux":
            environment["GLOO_SOCKET_IFNAME"] = (
                "lo"  # else gloo asks for the host's address, which may hang
            )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.zygote"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process: it stops when there is nothing more to read."""
        self._process.communicate()

    def run(self, program: Path, mode: Mode) -> Trace:
        """Run `program` in a folder of its own; where it fails, `Trace.error` has its output."""
        with run_folder("amp-migrate-run-") as folder:
            status = self._ask({"program": str(program), "mode": mode, "folder": str(folder)})
            record = folder / "trace.json"
            if not record.exists():
                return _crashed(
                    "exit status "
                    f"{status}\n{Path(folder, 'output.txt').read_text(encoding='utf-8')}"
                )
            return Trace(**json.loads(record.read_text(encoding="utf-8")))

    def _ask(self, request: dict[str, str]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return int(answer["status"])


def _crashed(error: str) -> Trace:
    return Trace(error, [], [], [], [], 0, [], [], {}, [])
