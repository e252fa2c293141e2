"""Worker processes in which a file that kills its worker costs itself alone."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

# Starting a worker and importing LibCST in it costs about as much as rewriting a few files.
WORTH_BYTES = 60_000
MOST_WORKERS = 16


@dataclass(frozen=True)
class Died:
    """The worker ended without an answer; `code` as `multiprocessing` tells it (negative: a signal)."""

    code: int

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exit code {self.code}"
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"


def workers_for(sizes: Sequence[int], worth: int = WORTH_BYTES) -> int:
    """How many workers pay for tasks of these sizes in bytes, if one pays from `worth` on; 0: do them in this process."""
    if len(sizes) < 2 or sum(sizes) < worth:
        return 0
    return min(_cores(), len(sizes), MOST_WORKERS)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def each(function: Callable[[Any], Any], tasks: Sequence[Any], workers: int) -> Generator[tuple[int, Any], None, None]:
    """Call `function` on every task in `workers` processes; yields (index, result or Died) as they come.

    `function` must be importable and must not raise. Closing the iterator ends the workers.
    """
    if workers == 0:
        for index, task in enumerate(tasks):
            yield index, function(task)
        return
    pool = _Pool(function, tasks)
    try:
        pool.start(workers)
        yield from pool.results()
    finally:
        pool.close()


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    index: int


@dataclass
class _Pool:
    function: Callable[[Any], Any]
    tasks: Sequence[Any]
    waiting: deque[int] = field(init=False)
    busy: dict[Connection, _Worker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waiting = deque(range(len(self.tasks)))

    def start(self, workers: int) -> None:
        for _ in range(min(workers, len(self.tasks))):
            self._spawn()

    def _spawn(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.function), daemon=True)
        process.start()
        # Closed here, so that the worker's end is the only one and its death is seen as the end of the stream.
        theirs.close()
        self._give(_Worker(process, ours, self.waiting.popleft()))

    def _give(self, worker: _Worker) -> None:
        self.busy[worker.pipe] = worker
        # Where it has died already, reading from it will tell.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker.pipe.send(self.tasks[worker.index])

    def results(self) -> Iterator[tuple[int, Any]]:
        while self.busy:
            for pipe in wait(list(self.busy)):
                worker = self.busy.pop(pipe)  # type: ignore[call-overload]
                index = worker.index
                try:
                    result = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    yield index, self._bury(worker)
                    continue
                self._next(worker)
                yield index, result

    def _next(self, worker: _Worker) -> None:
        if self.waiting:
            worker.index = self.waiting.popleft()
            self._give(worker)
        else:
            worker.pipe.close()
            worker.process.join()

    def _bury(self, worker: _Worker) -> Died:
        worker.pipe.close()
        worker.process.join()
        if self.waiting:
            self._spawn()
        return Died(worker.process.exitcode or 0)

    def close(self) -> None:
        for worker in self.busy.values():
            worker.process.terminate()
            worker.process.join()
            worker.pipe.close()


def _serve(pipe: Connection, function: Callable[[Any], Any]) -> None:
    # An interrupt is for the parent, which ends the workers in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send(function(task))
