"""What runs leave behind goes with them, whatever ends them; a killed one's is found by the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from amp_migrate.runtime.run_folder import run_folder
from tests.runtime.programs import BEFORE

WAITS = f"""\
import time

print("here", file=open("ready", "w"))
time.sleep(100)
{BEFORE}"""
WORKERS = """\
import multiprocessing
import torch


def work(queue):
    queue.put([1.0, 1.0, 1.0])


def main():
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    process = multiprocessing.get_context("spawn").Process(target=work, args=(queue,))
    process.start()
    x = torch.tensor(queue.get()).expand(8, 3).to("cuda")
    process.join()
    model = torch.nn.Linear(3, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks and signals of POSIX")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A verification in the middle of its first run."""
    (tmp_path / "train.py").write_text(WAITS, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "amp_migrate", "verify", "--device", "cpu", "train.py"],
        cwd=tmp_path,
        env=_environment(tmp_path),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    _until((tmp_path / "ready").exists)
    with process:
        yield process
        process.kill()


def _environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "temporary").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "temporary"), "OMP_NUM_THREADS": "1"}


def _left(tmp_path: Path) -> list[Path]:
    """Without the cache of torch's compiler, which all programs share."""
    found = (tmp_path / "temporary").iterdir()
    return [path for path in found if not path.name.startswith("torchinductor")]


def _until(holds: object) -> None:
    end = time.monotonic() + 120
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


def _runs_in(folder: Path) -> list[str]:
    """Processes whose current folder is this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            here = os.readlink(process / "cwd")
        except OSError:
            continue
        if here == str(folder):
            found.append(process.name)
    return found


def test_kill_ends_a_verification_as_an_interrupt_does(
    started: subprocess.Popen[str], tmp_path: Path
) -> None:
    started.send_signal(signal.SIGTERM)
    told = started.communicate(timeout=120)[0]
    assert "interrupted" in told
    assert started.returncode == 130
    assert not _left(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_no_run_outlives_its_verification_and_the_next_removes_its_folder(
    started: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started.kill()
    started.wait()
    _until(lambda: not _runs_in(tmp_path))
    assert len(_left(tmp_path)) == 1
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    with run_folder() as folder:
        assert _left(tmp_path) == [folder]
    assert not _left(tmp_path)


def test_only_what_a_killed_process_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "amp-migrate-notes").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "owner.lock").touch()
    (tmp_path / "amp-migrate-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "amp-migrate-left").mkdir()
    (tmp_path / "amp-migrate-left" / "owner.lock").touch()
    with run_folder() as other, run_folder() as folder:
        assert {path.name for path in tmp_path.iterdir()} == {
            "amp-migrate-notes", "elsewhere", "amp-migrate-link", other.name, folder.name,
        }  # fmt: skip
    assert (tmp_path / "elsewhere" / "owner.lock").exists()


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--quick"], ["--quick", "--nproc", "2"]])
def test_a_verification_leaves_nothing(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BEFORE if "2" in options else WORKERS, encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-m", "amp_migrate", "verify", "--device", "cpu", *options, "train.py"],
        cwd=tmp_path,
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout
    assert not _left(tmp_path)


def test_a_fork_does_not_take_its_parents_folder_along() -> None:
    script = (
        "import os, sys; from amp_migrate.runtime.run_folder import own_folder; f = own_folder();"
        "pid = os.fork(); pid or sys.exit(); os.waitpid(pid, 0); print(f.exists(), f)"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert told[0] == "True"
    assert not Path(told[1]).exists()
