"""`amp-migrate run`: the program is the user's own in every respect but its precision."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOP = """\
import sys
import torch
import helper

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(2, 1).to(device)


def train():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.ones(3, 4, 2):
        optimizer.zero_grad()
        loss = model(x.to(device)).square().mean()
        loss.backward()
        optimizer.step()
    print("scaler" in train.__code__.co_varnames, train.__code__.co_firstlineno)


if __name__ == "__main__":
    print(sys.argv, __file__, __name__, sys.modules["__main__"].model is model, sys.path[0])
    train()
    helper.fail(loud="--loud" in sys.argv)
"""
HELPER = '''\
import torch


def fail(loud):
    """A module of the project, which has a loop too."""
    weight = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(weight.parameters(), lr=0.1)
    device = next(weight.parameters()).device
    for x in torch.ones(2, 1, 1):
        optimizer.zero_grad()
        loss = weight(x.to(device)).sum()
        loss.backward()
        optimizer.step()
    if loud:
        raise ValueError("on purpose")
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
    (tmp_path / "helper.py").write_text(HELPER, encoding="utf-8")
    (tmp_path / "pkg" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "pkg" / "tool.py").write_text(
        "import sys\nprint(sys.argv[1:], __name__)\nsys.exit(3)\n", encoding="utf-8"
    )
    return tmp_path


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, "-m", "amp_migrate", "run", *arguments]
    return subprocess.run(
        command,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_program_sees_its_own_names_and_lines(project: Path) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*.py")}
    done = run(project, "train.py", "--loud", "-v")
    first, second = done.stdout.splitlines()
    assert first == f"{['train.py', '--loud', '-v']} {project / 'train.py'} __main__ True {project}"
    assert second == f"True {LOOP.splitlines().index('def train():') + 1}"
    assert {path: path.read_bytes() for path in project.rglob("*.py")} == before


def test_a_traceback_shows_the_original_lines_after_what_is_migrated(project: Path) -> None:
    done = run(project, "train.py", "--loud")
    line = HELPER.splitlines().index('        raise ValueError("on purpose")') + 1
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: on purpose")
    assert f'helper.py", line {line}, in fail\n    raise ValueError("on purpose")' in done.stderr
    assert f'File "{project}/train.py", line {len(LOOP.splitlines())}, in <module>' in done.stderr
    told, _, trace = done.stderr.partition("Traceback")
    assert "amp_migrate" not in trace
    assert "train.py:14 in train" in told
    assert "helper.py:12 in fail" in told


def test_whatever_old_torch_the_project_asks_for_the_one_that_runs_it_counts(
    project: Path,
) -> None:
    (project / "requirements.txt").write_text("torch==1.4.0\n", encoding="utf-8")
    done = run(project, "train.py")
    assert "2 loops rewritten in memory" in done.stderr
    assert "True" in done.stdout.splitlines()[1]


def test_a_module_runs_as_with_python_m(project: Path) -> None:
    done = run(project, "-q", "-m", "pkg.tool", "--steps", "5")
    assert (done.stdout, done.returncode) == ("['--steps', '5'] __main__\n", 3)


def test_a_program_that_is_not_there_is_wrong_usage(project: Path) -> None:
    done = run(project, "absent.py")
    assert done.returncode == 2
    assert "there is no file absent.py" in done.stderr


@pytest.mark.parametrize("command", ["run", "verify"])
def test_without_torch_one_line_says_what_to_install(
    command: str, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    from click.testing import CliRunner

    from amp_migrate.cli import cli
    from amp_migrate.runtime import needs

    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    done = CliRunner().invoke(cli, [command, str(project / "train.py")])
    assert done.exit_code == 2
    assert "pip install torch" in done.output.splitlines()[-1]


SPAWNING = """\
import torch
import torch.multiprocessing as mp

model = torch.nn.Linear(2, 1)


def train(rank):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.ones(2, 4, 2):
        optimizer.zero_grad()
        loss = model(x.to(device)).square().mean()
        loss.backward()
        optimizer.step()
    with open(f"rank{rank}.txt", "w") as report:
        print("scaler" in train.__code__.co_varnames, __name__, file=report)


if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
"""


def test_processes_that_the_program_spawns_are_rewritten_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPAWNING, encoding="utf-8")
    done = run(tmp_path, "train.py")
    reports = [(tmp_path / f"rank{rank}.txt").read_text() for rank in range(2)]
    assert reports == ["True __mp_main__\n"] * 2, done.stderr
