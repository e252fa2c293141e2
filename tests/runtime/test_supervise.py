"""Children that crash, hang, or come and go: each is told, and nothing is left running."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import torch

from amp_migrate.runtime.endings import completed, how
from amp_migrate.runtime.fork_server import _works_in_a_child
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.supervise import Limits, Supervisor
from amp_migrate.runtime.trace import Trace
from tests.runtime.conftest import quiet
from tests.runtime.programs import BEFORE


@pytest.fixture(scope="module")
def short() -> Iterator[Supervisor]:
    with Supervisor(Limits(timeout=120), 0, "cpu", quiet) as found:
        yield found


def job(folder: Path, text: str, **changes: object) -> Job:
    (folder / "program.py").write_text(text, encoding="utf-8")
    plain = Job("test", str(folder / "program.py"), str(folder / "out"), cwd=str(folder), steps=4)
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def test_a_run_stops_after_the_wanted_steps_in_the_middle_of_an_epoch(
    short: Supervisor, tmp_path: Path
) -> None:
    (trace,) = short.run(job(tmp_path, BEFORE, steps=6))
    assert (trace.status, trace.steps, len(trace.losses)) == ("stopped", 6, 6)
    assert trace.losses[-1] < trace.losses[0]
    assert trace.parameter_names == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_crash_is_told_with_its_last_output(short: Supervisor, tmp_path: Path) -> None:
    text = "import os\nprint('the last words', flush=True)\nos.kill(os.getpid(), 9)\n"
    (trace,) = short.run(job(tmp_path, text))
    assert trace.status == "crashed"
    assert trace.error == "killed by SIGKILL\nthe last words"


def test_an_error_is_told_with_the_line_of_the_user(short: Supervisor, tmp_path: Path) -> None:
    (trace,) = short.run(job(tmp_path, "import torch\n\ntorch.zeros(2) @ torch.zeros(3)\n"))
    assert trace.status == "raised"
    assert 'program.py", line 3, in <module>' in trace.error
    assert "inconsistent tensor size" in trace.error


def test_what_watches_is_not_in_the_traceback_of_an_error(
    short: Supervisor, tmp_path: Path
) -> None:
    text = (
        "import torch\ntry:\n    torch.ones(2, requires_grad=True).backward()\n"
        "except RuntimeError as error:\n    raise ValueError('no scalar') from error\n"
    )
    (trace,) = short.run(job(tmp_path, text))
    assert 'program.py", line 3, in <module>' in trace.error
    assert 'program.py", line 5, in <module>' in trace.error
    assert "_tensor.py" in trace.error
    assert "amp_migrate" not in trace.error


def test_a_program_that_catches_everything_is_stopped_all_the_same(
    short: Supervisor, tmp_path: Path
) -> None:
    text = BEFORE.replace("train()\n", "try:\n    train()\nexcept:\n    pass\n").replace(
        "def try:\n    train", "def train"
    )
    (trace,) = short.run(job(tmp_path, text))
    assert (trace.steps, len(trace.losses)) == (4, 4)


SLEEPS = """\
import pathlib, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{mark}"])
print("asleep", flush=True)
pathlib.Path("asleep").touch()
time.sleep(600)
"""


def running(mark: str) -> bool:
    return (
        mark
        in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    )


def test_a_run_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    mark = f"{time.time_ns()}"
    with Supervisor(Limits(timeout=8), 0, "cpu", quiet) as supervisor:
        (trace,) = supervisor.run(job(tmp_path, SLEEPS.format(mark=mark)))
    assert trace.status == "crashed"
    assert trace.error == "still running after 8 s (--timeout)\nasleep"
    assert not running(mark)


@pytest.mark.parametrize("processes", [1, 2])
def test_an_interruption_ends_everything(tmp_path: Path, processes: int) -> None:
    def interrupt(job: Job, state: Mapping[str, float]) -> None:
        if (tmp_path / "asleep").exists():
            raise KeyboardInterrupt

    mark = f"{time.time_ns()}"
    with (
        Supervisor(Limits(100, processes), 0, "cpu", interrupt) as supervisor,
        pytest.raises(KeyboardInterrupt),
    ):
        supervisor.run(job(tmp_path, SLEEPS.format(mark=mark)))
    assert not running(str(tmp_path))


def test_an_interruption_right_after_the_start(tmp_path: Path) -> None:
    def interrupt(job: Job, state: Mapping[str, float]) -> None:
        raise KeyboardInterrupt

    with Supervisor(Limits(), 0, "cpu", interrupt) as supervisor, pytest.raises(KeyboardInterrupt):
        supervisor.run(job(tmp_path, SLEEPS.format(mark=0)))
    assert not (tmp_path / "asleep").exists()


ELSEWHERE = """\
import torch
import torch.multiprocessing as mp


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()


if __name__ == "__main__":
    next(iter(torch.utils.data.DataLoader(torch.ones(4), num_workers=1)))
    model = torch.nn.Linear(2, 1)
    processes = [mp.get_context("{method}").Process(target=train, args=(model,)) for _ in range(2)]
    [process.start() for process in processes]
    [process.join() for process in processes]
"""


STARTS = "    [process.start() for process in processes]"


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_training_in_processes_of_its_own_is_said_not_to_be_measured(
    method: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    (trace,) = supervisor.run(job(tmp_path, ELSEWHERE.format(method=method)))
    line = f"{tmp_path / 'program.py'}:{ELSEWHERE.splitlines().index(STARTS) + 1}"
    assert (trace.status, trace.steps) == ("finished", 0), trace.output
    assert trace.processes == [line, line]
    (check,) = completed("original", trace, None)
    assert check.verdict == "fail"
    assert f"it started 2 processes itself, at {line}, and only" in check.message


@pytest.mark.parametrize(
    ("device", "error", "words"),
    [
        (
            "cpu",
            "File distributed.py\nRuntimeError: Found no NVIDIA driver",
            "DistributedDataParallel",
        ),
        ("cpu", "RuntimeError: Found no NVIDIA driver", "its code asks the driver"),
        ("cuda", "RuntimeError: Found no NVIDIA driver", ""),
        ("cpu", "RuntimeError: shapes", ""),
    ],
)
def test_what_needs_a_driver_is_told_with_the_way_out(device: str, error: str, words: str) -> None:
    said = how(Trace(status="raised", error=error, device=device))
    assert ("take a build of torch for the CPU" in said) == bool(words)
    assert words in said


def test_runs_do_not_see_each_other(short: Supervisor, tmp_path: Path) -> None:
    for _ in range(2):
        text = (
            "import sys, torch\nprint(hasattr(torch, 'mine'), hash('x'), "
            "torch.rand(1).item())\ntorch.mine = 1\n"
        )
        (trace,) = short.run(job(tmp_path, text))
        assert trace.output.startswith("False")
    first = trace.output
    (trace,) = short.run(job(tmp_path, text))
    assert trace.output == first


@pytest.mark.skipif(
    torch.backends.cuda.is_built() and not torch.cuda.is_available(),
    reason="in a build with CUDA, DistributedDataParallel's timers need its driver",
)
def test_ranks_under_torchrun(tmp_path: Path) -> None:
    text = BEFORE.replace(
        "import torch\n", "import torch\ntorch.distributed.init_process_group('nccl')\n", 1
    )
    text = text.replace(
        "\n\ndef train",
        "\nmodel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])\n\n\ndef train",
    )
    text = text.replace(
        "torch.manual_seed(0)", "torch.manual_seed(0); rank = torch.distributed.get_rank()"
    )
    with Supervisor(Limits(timeout=100, processes=2), 0, "cpu", quiet) as supervisor:
        one, other = supervisor.run(job(tmp_path, text))
    assert (one.status, other.status) == ("stopped", "stopped"), one.error
    assert one.steps == other.steps == 4
    assert one.parameter_digests == other.parameter_digests


@pytest.mark.parametrize(("function", "works"), [(int, True), (lambda: 1 // 0, False)])
def test_whether_something_works_in_a_child_is_tried_in_one(
    function: Callable[[], object], works: bool
) -> None:
    assert _works_in_a_child(function) is works


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, so runs are forked")
def test_where_cuda_does_not_work_in_a_child_every_run_is_a_process_of_its_own(
    tmp_path: Path,
) -> None:
    with Supervisor(Limits(timeout=120), 0, "cuda", quiet) as supervisor:
        (trace,) = supervisor.run(job(tmp_path, "print('ran')"))
    assert (trace.status, trace.output) == ("finished", "ran")
