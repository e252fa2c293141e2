"""Runs jobs, each in a process of its own, and brings back a trace whatever becomes of the
process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from amp_migrate.runtime.fork_server import READY
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.seeds import environment
from amp_migrate.runtime.trace import Trace

Watch = Callable[[Job, Mapping[str, float]], None]
_BOOT = Path(__file__).with_name("boot.py")
_TAIL = 20


@dataclass(frozen=True)
class Limits:
    """`timeout` in seconds for one run, None for no limit; `processes` ranks per run."""

    timeout: float | None = None
    processes: int = 1


class Supervisor:
    """Starts children, watches them, and leaves none behind. Use as a context manager."""

    def __init__(
        self, limits: Limits, seed: int, device: str, watch: Watch
    ) -> None:
        self._limits = limits
        self._watch = watch
        self._environment = _environment(seed, device)
        self._zygote: subprocess.Popen[bytes] | None = None
        self._device = device
        self._forks = limits.processes == 1 and hasattr(os, "fork")

    def __enter__(self) -> Supervisor:  # noqa: PYI034 - typing.Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        if self._zygote is not None:
            _end(self._zygote)
            self._zygote = None

    def run(self, job: Job) -> list[Trace]:
        """Run `job` and return one trace per rank. Raises KeyboardInterrupt after ending the
        child.
        """
        folder = Path(job.folder)
        folder.mkdir(parents=True, exist_ok=True)
        order = folder / "job.json"
        job.write(order)
        zygote = self._serving()
        ending, tail = (
            self._fork(zygote, job, order)
            if zygote
            else self._start(job, order)
        )
        places = [
            folder / f"rank{rank}" / "trace.json"
            for rank in range(self._limits.processes)
        ]
        return [_trace(place, job, ending, tail) for place in places]

    def _start(self, job: Job, order: Path) -> tuple[str, str]:
        with open(Path(job.folder) / "output.txt", "wb") as output:
            process = subprocess.Popen(
                _command(order, self._limits),
                cwd=job.cwd,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                # The tail is read first: a launcher that is ended has a lot to say about itself.
                return self._wait(job, process.poll), _tail(
                    Path(job.folder) / "output.txt"
                )
            finally:
                _end(process)

    def start(self) -> None:
        """What the first run would wait for, before anything is timed."""
        self._serving()

    def _serving(self) -> subprocess.Popen[bytes] | None:
        """The process that forks the runs; None where they cannot be forked."""
        if self._forks and (
            self._zygote is None or self._zygote.poll() is not None
        ):
            self._zygote = subprocess.Popen(
                [sys.executable, str(_BOOT), "--serve", self._device],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            assert self._zygote.stdout is not None
            self._forks = (
                self._zygote.stdout.readline().strip() == READY.encode()
            )
        return self._zygote if self._forks else None

    def _fork(
        self, zygote: subprocess.Popen[bytes], job: Job, order: Path
    ) -> tuple[str, str]:
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        zygote.stdin.write(f"{order}\n".encode())
        zygote.stdin.flush()
        pid = int(zygote.stdout.readline() or 0)
        if not pid:
            return f"could not be started (exit code {zygote.wait()})", ""
        answers: list[int] = []
        try:
            ending = self._wait(job, lambda: _answer(zygote, answers))
        finally:
            _kill(pid)
            if not answers:
                zygote.stdout.readline()
        return ending, _tail(Path(job.folder) / "output.txt")

    def _wait(self, job: Job, poll: Callable[[], int | None]) -> str:
        began, progress = (
            time.monotonic(),
            Path(job.folder) / "rank0" / "progress.json",
        )
        while (code := poll()) is None:
            if (
                self._limits.timeout is not None
                and time.monotonic() - began > self._limits.timeout
            ):
                return f"still running after {self._limits.timeout:g} s (--timeout)"
            self._watch(job, _progress(progress))
            time.sleep(0.05)
        return _ending(code)


def _command(order: Path, limits: Limits) -> list[str]:
    if limits.processes == 1:
        return [sys.executable, str(_BOOT), str(order)]
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(limits.processes),
        "--log-dir",
        str(order.parent / "launcher"),
    ]
    return [*launcher, str(_BOOT), str(order)]


def _environment(seed: int, device: str) -> dict[str, str]:
    ours = {
        **os.environ,
        **environment(seed),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if device == "cpu":
        # The emulation is made of Python kernels, which a compiled graph would not call.
        ours.update(CUDA_VISIBLE_DEVICES="", TORCHDYNAMO_DISABLE="1")
    return ours


def _progress(path: Path) -> Mapping[str, float]:
    try:
        found: Mapping[str, float] = json.loads(
            path.read_text(encoding="utf-8")
        )
    except (OSError, ValueError):
        return {}
    return found


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """The child and all that it started: asked first (torchrun ends its ranks, which have sessions
    of their own).
    """
    for request, patience in ((signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, request)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            if request is signal.SIGKILL:
                return


def _answer(zygote: subprocess.Popen[bytes], answers: list[int]) -> int | None:
    """The exit code of the child, once the zygote has told it."""
    assert zygote.stdout is not None
    if not select.select([zygote.stdout], [], [], 0)[0]:
        return None
    answers.append(int(zygote.stdout.readline() or -signal.SIGKILL))
    return answers[0]


def _kill(pid: int) -> None:
    """A forked child with all that it started; what it answers afterwards is the zygote's to
    collect.
    """
    for kill in (
        os.killpg,
        os.kill,
    ):  # one that has just been forked may not lead its group yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _trace(path: Path, job: Job, ending: str, tail: str) -> Trace:
    try:
        trace = Trace.read(path)
    except (OSError, ValueError):
        trace = Trace(
            status="crashed",
            error=f"{ending}\n{tail}".strip(),
            device=job.device,
            dtype=job.dtype,
        )
    trace.output = tail
    return trace


def _tail(path: Path) -> str:
    with open(path, "rb") as file:
        file.seek(max(path.stat().st_size - 20_000, 0))
        text = file.read().decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-_TAIL:])
