"""Sets up torch in the child process as the job wants it, and writes down what came of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from amp_migrate.runtime import devices, emulation
from amp_migrate.runtime.child import ProgressFile
from amp_migrate.runtime.diagnosis import Diagnosis, Float32Modules
from amp_migrate.runtime.drills import Checkpoint, Overflow
from amp_migrate.runtime.events import Event, Listener
from amp_migrate.runtime.instrument import Instrument
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.masks import same_masks
from amp_migrate.runtime.monitor import Monitor
from amp_migrate.runtime.probe import Probe
from amp_migrate.runtime.reference import compute_in_float64
from amp_migrate.runtime.seeds import seed_all
from amp_migrate.runtime.spawned import count_trainers

_DRILLS: dict[str, Callable[[], Overflow | Checkpoint]] = {"overflow": Overflow, "checkpoint": Checkpoint}


class Session:
    """The listeners of one run."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.probe = Probe(job, ProgressFile(folder / "progress.json"))
        self.monitor = Monitor(lambda: self.probe.done)
        self.trainers = count_trainers()
        self.masks = same_masks() if job.same_masks else lambda: 0
        self.diagnosis = Diagnosis() if job.diagnose else None
        self.drills: list[Overflow | Checkpoint] = [_DRILLS[name]() for name in job.drills]


def start(job: Job, folder: Path) -> Session:
    """Install everything; the program may run afterwards."""
    session = Session(job, folder)
    if job.device == "cpu":
        devices.carry_to_cpu()
        emulation.install()
    if job.tf32 or job.exact:
        torch.set_float32_matmul_precision("high" if job.tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = job.tf32
    if job.init_scale is not None:
        _start_scale(job.init_scale)
    listeners: list[Listener] = [*session.drills, session.monitor, session.probe]
    if session.diagnosis is not None:
        listeners.append(session.diagnosis)
    if job.float32_modules:
        listeners.append(Float32Modules(job.float32_modules))
    if job.perturb:
        listeners.append(_Perturbation(job.perturb))
    if job.float64:
        listeners.append(compute_in_float64())
    instrument = Instrument(listeners)
    instrument.install()
    session.probe.cost = lambda: instrument.seconds
    seed_all(job.seed)
    return session


def _start_scale(value: float) -> None:
    kind: Any = torch.amp.GradScaler
    make: Callable[..., None] = kind.__init__

    def made(scaler: Any, *arguments: Any, **keywords: Any) -> None:
        make(scaler, *arguments, **keywords)
        if scaler.is_enabled():
            scaler._init_scale = value

    kind.__init__ = made


class _Perturbation:
    """Disturbs the parameters of each optimizer once, before its first step, by less than half precision rounds."""

    def __init__(self, size: float) -> None:
        self._size = size
        self._done: set[int] = set()

    def on(self, event: Event) -> None:
        """Disturb at the first step of an optimizer."""
        if event.kind != "gradients" or id(event.optimizer) in self._done:
            return
        self._done.add(id(event.optimizer))
        generator = torch.Generator().manual_seed(len(self._done))
        with torch.no_grad():
            for group in event.optimizer.param_groups:
                for parameter in group["params"]:
                    noise = torch.randn(parameter.shape, generator=generator).to(parameter.device, parameter.dtype)
                    parameter.mul_(1 + self._size * noise)


def finish(session: Session, folder: Path, status: str, error: str) -> None:
    """Write `trace.json`, and `tensors.pt` with the final parameters and the recorded gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = session.probe.finish(status, error)
        trace.processes, trace.masks = session.trainers(), session.masks()
        trace.violations = session.monitor.violations()
        trace.regions, trace.steps_inside = session.monitor.regions, session.monitor.steps_inside
        trace.drills = {name: answer for drill in session.drills for name, answer in drill.results(error)}
        session.probe.save_tensors(folder)
        if session.diagnosis is not None:
            trace.diagnosis = session.diagnosis.found
            session.diagnosis.save(folder)
    trace.write(folder / "trace.json")
