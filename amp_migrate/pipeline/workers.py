"""Worker processes in which a file that kills its worker costs itself alone.

A worker starts isolated (`python -I`): neither the current folder nor an environment variable puts
a folder in front of Python's own modules, so that a `pickle.py` in the tree that is looked at is
never run. Where else this process finds modules comes last on the worker's path.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import amp_migrate

# Starting a worker and importing LibCST in it costs about as much as rewriting a few files.
WORTH_BYTES = 60_000
MOST_WORKERS = 16
# The first look for garbage goes through all modules, too.
_MANY = 8
# An interrupt is for the parent, which ends the workers in order.
_BOOT = """
import _signal
_signal.signal(_signal.SIGINT, _signal.SIG_IGN)
import gc, pickle, sys
paths, collected = pickle.load(sys.stdin.buffer)
gc.set_threshold(*collected)
sys.path += [path for path in paths if path not in sys.path]
from amp_migrate.pipeline.workers import serve
serve()
gc.freeze()
"""


@dataclass(frozen=True)
class Died:
    """The worker ended without an answer; `code` as `subprocess` tells it (negative: a signal)."""

    code: int

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exit code {self.code}"
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"


def workers_for(sizes: Sequence[int], worth: int = WORTH_BYTES) -> int:
    """How many workers pay for tasks of these sizes in bytes, if one pays from `worth` on; 0: do
    them in this process.
    """
    if len(sizes) < 2 or sum(sizes) < worth:
        return 0
    return min(_cores(), len(sizes), MOST_WORKERS)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def each(
    function: Callable[[Any], Any], tasks: Sequence[Any], workers: int
) -> Generator[tuple[int, Any], None, None]:
    """Call `function` on every task in `workers` processes; yields (index, result or Died) as they
    come.

    `function` must be importable and must not raise. Closing the iterator ends the workers.
    """
    if workers == 0:
        for index, task in enumerate(tasks):
            yield index, function(task)
            if len(tasks) >= _MANY:
                _tidy()
        return
    pool = _Pool(pickle.dumps(function), tasks)
    try:
        pool.start(min(workers, len(tasks)))
        for _ in tasks:
            index, result = pool.results.get()
            if isinstance(result, _Failed):
                raise result.error
            yield index, result
    finally:
        pool.close()


class _Failed:
    """No worker could be started."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Worker:
    """One process, and the two pipes to it."""

    def __init__(self, function: bytes) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with contextlib.suppress(
            OSError
        ):  # where it has died already, reading will tell
            known = pickle.dumps((_search_path(), gc.get_threshold()))
            self._pipe(self.process.stdin).write(known + function)

    def ask(self, task: Any) -> Any:
        """The answer to a task; Died where the worker ends before it gives one."""
        with contextlib.suppress(OSError):
            pickle.dump(task, self._pipe(self.process.stdin))
            self._pipe(self.process.stdin).flush()
        try:
            return pickle.load(self._pipe(self.process.stdout))  # noqa: S301 - from our own child
        except (OSError, EOFError, pickle.UnpicklingError):
            return Died(self.process.wait())

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                self._pipe(pipe).close()
        self.process.wait()

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe


def _search_path() -> list[str]:
    """Folders with modules, as this process has them; relative ones depend on where it runs."""
    home = str(Path(amp_migrate.__file__).resolve().parent.parent)
    return [*(path for path in sys.path if os.path.isabs(path)), home]  # noqa: PTH117


@dataclass
class _Pool:
    """Workers, each driven by a thread; what they answer comes in one queue."""

    function: bytes
    tasks: Sequence[Any]
    waiting: deque[int] = field(init=False)
    results: queue.SimpleQueue[tuple[int, Any]] = field(
        default_factory=queue.SimpleQueue
    )
    alive: set[_Worker] = field(default_factory=set)
    threads: list[threading.Thread] = field(default_factory=list)
    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.waiting = deque(range(len(self.tasks)))

    def start(self, workers: int) -> None:
        for _ in range(workers):
            thread = threading.Thread(target=self._drive, daemon=True)
            self.threads.append(thread)
            thread.start()

    def _drive(self) -> None:
        worker: _Worker | None = None
        try:
            while (index := self._next()) is not None:
                worker = worker or self._started()
                if worker is None:
                    return
                result = worker.ask(self.tasks[index])
                if isinstance(result, Died):
                    self._ended(worker)
                    worker = None
                self.results.put((index, result))
        except BaseException as error:
            self.results.put((-1, _Failed(error)))
        finally:
            if worker is not None:
                self._ended(worker)

    def _next(self) -> int | None:
        with contextlib.suppress(IndexError):
            return None if self.closed else self.waiting.popleft()
        return None

    def _started(self) -> _Worker | None:
        with self.lock:
            if self.closed:
                return None
            worker = _Worker(self.function)
            self.alive.add(worker)
            return worker

    def _ended(self, worker: _Worker) -> None:
        worker.close()
        with self.lock:
            self.alive.discard(worker)

    def close(self) -> None:
        """End the workers, and wait until they are gone."""
        with self.lock:
            self.closed = True
            for worker in self.alive:
                worker.process.terminate()
        for thread in self.threads:
            thread.join()


def serve() -> None:
    """Answer tasks until there are no more: what a worker does."""
    tasks = sys.stdin.buffer
    # What a module prints while it works must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    function = pickle.load(tasks)  # noqa: S301 - from our own parent
    while True:
        try:
            task = pickle.load(tasks)  # noqa: S301
        except EOFError:
            return
        pickle.dump(function(task), answers)
        answers.flush()
        _tidy()


def _tidy() -> None:
    """Free what a task has left, which is full of circles: while the processor has it at hand, that
    takes a third of what it takes among the remains of thirty tasks.
    """
    gc.collect(0)
