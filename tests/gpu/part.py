"""A part of what is tried on a GPU: a program that prints Markdown, and what became of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.arguments import WRONG

ROOT = Path(__file__).resolve().parents[2]
_TAIL = 2000
PATIENCE = 30.0
"""Seconds after its time in which a part may come to its end by itself."""
COMMAND = "make gpu"


@dataclass(frozen=True)
class Part:
    """`python -m MODULE --device D --seconds S [--tiny]` prints it; its exit code is WRONG where
    it found something wrong.
    """

    name: str
    title: str
    module: str
    share: int
    """Of the time, in seconds where there are ten minutes."""


PARTS = (
    Part("operators", "The simulated GPU and the real one", "tests.gpu.operators", 90),
    Part("programs", "Verdicts on programs that are right or wrong", "tests.gpu.programs", 190),
    Part("speed", "Time and memory", "tests.gpu.speed", 190),
    Part("probe", "What it costs to be watched", "tests.gpu.probe", 40),
    Part("launcher", "Under torchrun", "tests.gpu.launcher", 60),
)


@dataclass(frozen=True)
class Outcome:
    """What a part printed, and how it ended."""

    part: Part
    text: str
    ending: str
    right: bool


def run(part: Part, file: Path, device: str, tiny: bool, seconds: float) -> Outcome:
    """The part in a process of its own. Its output goes to `file` as it comes; it is told its
    time, and ended some time after that.
    """
    command = [sys.executable, "-m", part.module, "--device", device, "--seconds", f"{seconds:.0f}"]
    errors = file.with_suffix(".log")
    with open(file, "wb") as out, open(errors, "wb") as err:
        process = subprocess.Popen(
            [*command, *["--tiny"] * tiny],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": _path()},
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            ending = _ending(process.wait(seconds + PATIENCE))
        except subprocess.TimeoutExpired:
            ending = f"ended after {seconds:.0f} s"
        finally:
            _end(process)
    text = file.read_text(encoding="utf-8", errors="replace")
    if ending not in _KNOWN.values():
        text += _told(ending, errors)
    return Outcome(part, text, ending, ending == _KNOWN[0])


_KNOWN = {0: "done", WRONG: "found something wrong"}


def _ending(code: int) -> str:
    return _KNOWN.get(code, f"died with exit code {code}")


def _told(ending: str, errors: Path) -> str:
    """What a part says that did not come to its end; the table above it is what it had done."""
    tail = errors.read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()
    return f"\nThis part {ending}.\n" + (f"\n```\n{tail}\n```\n" if tail else "")


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])])


def document(head: str, outcomes: Sequence[Outcome]) -> str:
    """docs/gpu.md with what there is so far."""
    parts = [
        f"## {found.part.title}\n\n{found.text.strip() or 'nothing was measured'}\n"
        for found in outcomes
    ]
    return "\n".join([f"# On a GPU\n\n`{COMMAND}`, {head}\n", *parts])
