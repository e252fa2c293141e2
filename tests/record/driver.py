"""`driver.py PROJECT ARGUMENT...`: amp-migrate of the checkout PROJECT, in one process."""

from __future__ import annotations

import importlib
import sys


def main() -> int:
    """Run the command line of that checkout."""
    project, *arguments = sys.argv[1:]
    sys.path[0] = project
    # Workers find the installed package, which may be another one than PROJECT.
    workers = importlib.import_module("amp_migrate.pipeline.workers")
    workers.workers_for = lambda *_, **__: 0  # type: ignore[attr-defined]
    return int(importlib.import_module("amp_migrate.cli").main(arguments) or 0)


if __name__ == "__main__":
    sys.exit(main())
