"""Runs of one program, each in a child of this process, which has imported torch once."""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from tests.generated import cuda_autocast
from tests.generated.machine import Machine
from tests.harness.protocol import Protocol
from tests.harness.recorder import Recorder

SECONDS = 30
Mode = Literal["off", "on"]
"""off: no accelerator. on: a made-up CUDA device, and CUDA's autocast computed on the CPU."""


@dataclass(frozen=True)
class Run:
    """What one run did."""

    error: str | None = None
    losses: list[float] = field(default_factory=list)
    loss_digests: list[str] = field(default_factory=list)
    parameters: list[list[str]] = field(default_factory=list)
    steps: int = 0
    steps_before: list[int] = field(default_factory=list)
    """Steps that optimizers had taken when each loss was computed."""
    violations: list[str] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    enabled_scalers: int = 0
    finite: bool = True
    autocast_dtypes: list[str] = field(default_factory=list)
    half_forwards: int = 0
    float32_forwards: dict[str, int] = field(default_factory=dict)
    idle_casts: dict[str, int] = field(default_factory=dict)
    output: str = ""


class _Recorder(Recorder):
    """Knows how many steps were taken before each loss."""

    def __init__(self) -> None:
        super().__init__()
        self.steps_before: list[int] = []

    def record(self, loss: torch.Tensor) -> None:
        super().record(loss)
        self.steps_before.append(self._steps)


def prepare() -> None:
    """Once per process, before the first run."""
    torch.set_num_threads(1)
    cuda_autocast.install()
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    for make in (torch.optim.Adam, torch.optim.SGD, torch.optim.AdamW):
        make([parameter]).step()  # what torch imports at the first step, once for all children


def run(folder: Path, main: str, mode: Mode, arguments: Sequence[str] = ()) -> Run:
    """Run `main` in `folder` as a script."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _child(folder.resolve(), main, mode, arguments, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        return Run(error=f"died: exit status {os.waitstatus_to_exitcode(status)}")
    return Run(**json.loads(answer))


def _child(folder: Path, main: str, mode: Mode, arguments: Sequence[str], answer: int) -> None:
    try:
        signal.alarm(SECONDS)
        output = os.open(folder / "output.txt", os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        trace = _observed(folder, main, mode, arguments)
        sys.stdout.flush()
        trace["output"] = (folder / "output.txt").read_text(encoding="utf-8")[-2000:]
        os.write(answer, json.dumps(trace).encode())
    finally:
        os._exit(0)


def _observed(folder: Path, main: str, mode: Mode, arguments: Sequence[str]) -> dict[str, Any]:
    recorder = _Recorder()
    protocol = Protocol(recorder)
    machine = Machine(
        f"{folder}/", mode == "on", lambda parameter: id(parameter) in protocol._scaled
    )
    recorder.install()
    protocol.install()
    machine.install()
    os.chdir(folder)
    sys.argv = [main, *arguments]
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    error = _executed(str(folder / main), machine)
    record, watched = recorder.trace(), protocol.trace()
    return {
        "error": error,
        **{name: record[name] for name in ("losses", "loss_digests", "parameters", "steps")},
        "steps_before": recorder.steps_before,
        "violations": [
            *watched["violations"],
            *(f"gradient read while scaled ({line})" for line in machine.scaled_reads),
        ],
        "calls": watched["calls"],
        "enabled_scalers": len(protocol.scalers),
        "finite": _finite(recorder),
        "autocast_dtypes": sorted(machine.autocast_dtypes),
        "half_forwards": machine.half_forwards,
        "float32_forwards": dict(machine.float32_forwards),
        "idle_casts": dict(machine.idle_casts),
    }


def _executed(program: str, machine: Machine) -> str | None:
    try:
        with machine:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as stop:
        return f"exit: {stop.code}" if stop.code else None
    except Exception as error:
        return _told(error, os.path.dirname(program))
    return None


def _told(error: Exception, folder: str) -> str:
    """The error, and the lines of the program that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f"{Path(f.filename).name}:{f.lineno}: {f.line}"
        for f in frames
        if f.filename.startswith(folder)
    ]
    return " > ".join([*own[-3:], f"{type(error).__name__}: {str(error)[:300]}"])


def _finite(recorder: Recorder) -> bool:
    tensors = [
        p for it in recorder.optimizers for group in it.param_groups for p in group["params"]
    ]
    return all(
        bool(torch.isfinite(torch.view_as_real(t) if t.is_complex() else t).all()) for t in tensors
    )
