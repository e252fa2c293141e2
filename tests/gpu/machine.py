"""What was measured on: hardware, driver, versions."""

from __future__ import annotations

import datetime as dt
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def described(device: str) -> str:
    """One sentence for the head of the document."""
    import torch

    day = dt.datetime.now(tz=dt.timezone.utc).date()
    versions = [
        f"torch {torch.__version__}",
        f"Python {platform.python_version()}",
        platform.platform(terse=True),
        f"commit {_said('git', '-C', str(ROOT), 'rev-parse', '--short', 'HEAD') or 'unknown'}",
    ]
    return f"{day}: {_hardware(device)}; {', '.join(versions)}."


def _hardware(device: str) -> str:
    import torch

    if device == "cpu":
        return "a rehearsal on the CPU, in which no number means anything"
    found = torch.cuda.get_device_properties(0)
    count = torch.cuda.device_count()
    driver = _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    parts = [
        f"{count} x {found.name}" if count > 1 else found.name,
        f"{found.total_memory / 2**30:.0f} GiB",
        f"compute capability {found.major}.{found.minor}",
        f"driver {driver.splitlines()[0] if driver else 'unknown'}",
        f"CUDA {torch.version.cuda}",
        f"cuDNN {torch.backends.cudnn.version()}",
    ]
    return ", ".join(parts)


def _said(*command: str) -> str:
    """What a program prints; nothing where it is not there or fails."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    print(described(sys.argv[1] if len(sys.argv) > 1 else "cuda"))
