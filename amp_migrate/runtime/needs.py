"""What must be installed, and the one line that says so."""

from __future__ import annotations

import os
from importlib.util import find_spec

import click


def require_torch(command: str) -> None:
    """Raise a UsageError that names the extra where torch is not installed."""
    if find_spec("torch") is None:
        message = (
            f"amp-migrate {command} runs programs and needs torch; install it into the same "
            "environment: pip install torch"
        )
        raise click.UsageError(message)


def default_device() -> str:
    """`cuda` where torch has one, asked in a way that leaves no CUDA context in this process."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device_of(asked: str | None) -> str:
    """The device of the runs. Raise a UsageError for a GPU that is not there."""
    if asked == "cpu":
        return asked  # torch, which takes a second to import, is not asked
    found = default_device()
    if asked == "cuda" != found:
        message = (
            "--device cuda: torch sees no GPU here; --device cpu simulates one"
        )
        raise click.UsageError(message)
    return found
