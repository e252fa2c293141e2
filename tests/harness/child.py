"""One run of one program in a process of its own: installs the observers, runs it as `__main__`,
writes the trace.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

from tests.harness.device import Device
from tests.harness.protocol import Protocol
from tests.harness.recorder import Recorder

STAND_INS = Path(__file__).parent / "stand_ins"
"""Packages that fixtures import and nobody has: apex."""


def run(program: str, mode: str, folder: str) -> None:
    """Run `program` in `folder`, where `trace.json` is written in the end."""
    recorder = Recorder()
    protocol = Protocol(recorder)
    device = Device(program, amp=mode == "on", on_gradient_read=protocol.gradient_read)
    recorder.install()
    protocol.install()
    device.install()
    os.chdir(folder)
    error = _execute(program, device)
    trace = {
        "error": error,
        **recorder.trace(),
        **protocol.trace(),
        "autocast_dtypes": sorted(device.autocast_dtypes),
    }
    Path(folder, "trace.json").write_text(json.dumps(trace), encoding="utf-8")


def _execute(program: str, device: Device) -> str | None:
    sys.argv = [program]
    sys.path[:] = [str(Path(program).parent), *sys.path, str(STAND_INS)]
    try:
        with device:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as stop:
        return None if not stop.code else f"exit: {stop.code}"
    except Exception:
        return traceback.format_exc()
    return None
