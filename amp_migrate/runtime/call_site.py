"""Where in the user's program a call of torch stands."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from amp_migrate.runtime.events import Site

OURS = str(Path(__file__).resolve().parents[1]) + os.sep
TORCH = str(Path(torch.__file__).resolve().parent) + os.sep


def call_site() -> Site:
    """The innermost frame of neither torch nor this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(
        (OURS, TORCH, "<")
    ):
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)
