"""Worker processes: every task is answered, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from amp_migrate.pipeline import workers as parallel
from amp_migrate.pipeline.workers import Died, each, workers_for
from tests.cli.conftest import Run, python


def work(task: str) -> tuple[str, int]:
    """Runs in a worker."""
    if task == "exit":
        os._exit(3)
    if task == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "raise":
        raise ValueError(task)
    if task == "sleep":
        time.sleep(600)
    return task.upper(), os.getpid()


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_every_task_is_answered(workers: int) -> None:
    tasks = [f"t{number}" for number in range(9)]
    results = dict(each(work, tasks, workers))
    assert [results[index][0] for index in range(9)] == [task.upper() for task in tasks]
    processes = {pid for _, pid in results.values()}
    assert len(processes) <= max(workers, 1)
    assert (os.getpid() in processes) == (workers == 0)


def test_a_worker_that_dies_costs_its_task_alone() -> None:
    tasks = ["a", "kill", "b", "exit", "kill", "c", "raise", "d"]
    results = dict(each(work, tasks, 2))
    assert {index for index, result in results.items() if isinstance(result, Died)} == {1, 3, 4, 6}
    assert [results[index][0] for index in (0, 2, 5, 7)] == ["A", "B", "C", "D"]
    assert str(results[1]) == "SIGKILL"
    assert str(results[3]) == "exit code 3"
    assert str(Died(-99)) == "signal 99"


def test_closing_ends_the_workers() -> None:
    with closing(each(work, ["a", "sleep", "sleep", "sleep"], 2)) as results:
        _, (_, pid) = next(results)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_workers_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_cores", lambda: 4)
    assert workers_for([]) == 0
    assert workers_for([10**9]) == 0
    assert workers_for([100] * 10) == 0
    assert workers_for([50_000] * 3) == 3
    assert workers_for([50_000] * 30) == 4


def test_at_least_one_core() -> None:
    assert parallel._cores() >= 1


def test_a_file_that_kills_its_worker(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.py").write_text("loss.backward()\n")
    results = iter([(0, Died(-11))])
    monkeypatch.setattr(parallel, "each", lambda *_: (one for one in results))
    ran = run("a.py")
    assert ran.code == 1
    assert "its worker process died (SIGSEGV)" in ran.text
    assert "The file is unchanged" in " ".join(ran.text.split())


def test_a_real_run_in_workers(tmp_path: Path) -> None:
    """Syntax errors are told by the workers in order, one for each file."""
    for number in range(8):
        (tmp_path / f"{number}.py").write_text("loss.backward(\n" + "#" * 20_000)
    done = python("-m", "amp_migrate", ".", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    failed = [
        line.split()[1].split(":")[0]
        for line in done.stdout.splitlines()
        if line.startswith("failed")
    ]
    assert failed == [f"{number}.py" for number in range(8)]
    assert done.stdout.count("was never closed") == 8
