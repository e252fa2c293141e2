"""What must be installed, and the one line that says so."""

from __future__ import annotations

from importlib.util import find_spec

import click


def require_torch(command: str) -> None:
    """Raise a UsageError that names the extra where torch is not installed."""
    if find_spec("torch") is None:
        message = f"amp-migrate {command} runs programs and needs torch: pip install 'amp-migrate[verify]'"
        raise click.UsageError(message)
