"""Sets up torch in the child process as the job wants it, and writes down what came of it."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from amp_migrate.runtime import simulated_gpu
from amp_migrate.runtime.call_site import OURS, TORCH
from amp_migrate.runtime.carried import carry
from amp_migrate.runtime.changes import LeavingOut, Perturbation, start_scale
from amp_migrate.runtime.diagnosis import Diagnosis
from amp_migrate.runtime.drills import Checkpoint, Overflow
from amp_migrate.runtime.engagement import Engagement
from amp_migrate.runtime.events import Listener
from amp_migrate.runtime.instrument import Instrument
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.masks import same_masks
from amp_migrate.runtime.monitor import Monitor
from amp_migrate.runtime.phases import Phases
from amp_migrate.runtime.probe import Probe
from amp_migrate.runtime.progress_file import ProgressFile
from amp_migrate.runtime.reference import compute_in_float64
from amp_migrate.runtime.seeds import repeat_seeds, seed_all
from amp_migrate.runtime.simulated_gpu import left_behind
from amp_migrate.runtime.spawned import note_trainers
from amp_migrate.runtime.waiting import Waiting

_DRILLS: dict[str, Callable[[], Overflow | Checkpoint]] = {
    "overflow": Overflow,
    "checkpoint": Checkpoint,
}


class Session:
    """The listeners of one run."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.probe = Probe(job, ProgressFile(folder / "progress.json"))
        self.monitor = Monitor(
            lambda: self.probe.done, simulated=job.device == "cpu"
        )
        self.trainers = note_trainers(OURS, TORCH)
        self.masks = same_masks() if job.same_masks else lambda: 0
        self.engagement = Engagement()
        self.phases = Phases(job.device == "cpu", job.warmup)
        self.waiting = Waiting()
        self.failures: list[str] = []
        self.captured: Callable[[], int] = lambda: 0
        self.seeds: list[int] = []
        self.diagnosis = Diagnosis() if job.diagnose else None
        self.drills: list[Overflow | Checkpoint] = [
            _DRILLS[name]() for name in job.drills
        ]


def start(job: Job, folder: Path) -> Session:
    """Install everything; the program may run afterwards."""
    session = Session(job, folder)
    if job.device == "cpu":
        simulated_gpu.install()
        simulated_gpu.own()
    if job.carried:
        carry()
    _arithmetic(job)
    if job.init_scale is not None:
        start_scale(job.init_scale)
    listeners: list[Listener] = [
        *session.drills,
        session.engagement,
        session.monitor,
        session.probe,
        session.phases,
    ]
    if session.diagnosis is not None:
        listeners.append(session.diagnosis)
    if job.perturb:
        listeners.append(
            Perturbation(
                job.perturb, "optimizer" if job.perturb_first else "gradients"
            )
        )
    if job.left_out:
        listeners.append(LeavingOut(job.left_out))
    if job.float64:
        listeners.append(compute_in_float64())
    instrument = Instrument(listeners)
    instrument.install()
    session.failures = instrument.failures
    session.captured = lambda: instrument.captured
    session.probe.cost = lambda: instrument.seconds
    seed_all(job.seed)
    session.seeds = repeat_seeds(_own_seeds(job))
    gc.freeze()  # as in the fork server, for a run that has a process of its own
    return session


def _own_seeds(job: Job) -> tuple[int, ...]:
    """Those of this process's rank."""
    rank = int(os.environ.get("RANK", "0"))
    return job.seeds[rank] if rank < len(job.seeds) else ()


def _arithmetic(job: Job) -> None:
    """With TF32, or without it whatever the program turns on, by the old or the new interface of
    torch: it refuses a mix of them, so as little as can be is set by either (convolutions have it).
    """
    if job.tf32:
        torch.set_float32_matmul_precision("high")
    if job.exact:
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"


def finish(
    session: Session, folder: Path, status: str, error: str, place: str = ""
) -> None:
    """Write `trace.json`, and `tensors.pt` with the final parameters and the recorded gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = session.probe.finish(status, error)
        trace.raised_at, trace.seeds = place, session.seeds
        trace.processes, trace.masks = session.trainers, session.masks()
        trace.waiting_share = session.waiting.share
        trace.workers = session.waiting.workers
        trace.phase_seconds = session.phases.seconds()
        trace.captured = session.captured()
        trace.sparse = bool(left_behind.layouts)
        trace.violations = session.monitor.violations()
        trace.unmeasured = session.failures
        found = session.engagement
        trace.half_operators, trace.operators = found.half, found.operators
        trace.modules, trace.devices = found.modules, sorted(found.devices)
        trace.regions, trace.steps_inside = (
            session.monitor.regions,
            session.monitor.steps_inside,
        )
        trace.drills = {
            name: answer
            for drill in session.drills
            for name, answer in drill.results(error)
        }
        session.probe.save_tensors(folder)
        if session.diagnosis is not None:
            trace.diagnosis = session.diagnosis.found
            trace.places = session.diagnosis.places
            session.diagnosis.save(folder)
    trace.write(folder / "trace.json")
