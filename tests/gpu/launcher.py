"""Under torchrun: `run` on one GPU, and `verify` on as many as there are, up to two."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from tests.gpu.arguments import WRONG, Budget, budget
from tests.runtime.programs import DDP


def main() -> int:
    """Print what came of it; WRONG where a command failed."""
    given = budget("Under torchrun.")
    count = min(torch.cuda.device_count(), 2) if given.device == "cuda" else 1
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    commands = [[*run, "-m", "amp_migrate", "run", "train.py"]]
    if count > 1:
        verify = ["-m", "amp_migrate", "verify", "--nproc", str(count), "--steps", "4"]
        commands.append([*verify, "--device", given.device, "train.py"])
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(DDP, encoding="utf-8")
        for command in commands:
            failed += _ran(command, folder, given)
    return WRONG if failed else 0


def _ran(command: list[str], folder: str, given: Budget) -> bool:
    """Print the command and the end of its output; whether it failed."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=max(given.left, 1),
    )  # fmt: skip
    tail = "\n".join(done.stdout.strip().splitlines()[-12:])
    print(f"`python {' '.join(command)}`: exit code {done.returncode}\n\n```\n{tail}\n```\n")
    return done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
