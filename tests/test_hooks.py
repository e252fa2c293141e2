"""The pre-commit hooks, tried with pre-commit in repositories of their own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pipeline.lint.programs import NEW, OLD, PLAIN

ROOT = Path(__file__).parent.parent
HOOKS: list[dict[str, Any]] = yaml.safe_load(
    (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
)
TOOL = Path(sys.executable).parent / "pre-commit"
pytestmark = pytest.mark.skipif(
    shutil.which("git") is None or not TOOL.exists(), reason="pre-commit and git are not installed"
)

MODEL = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        return self.layers(x)
"""
ENGINE = """\
from torch import nn


def train_epoch(model, loader, optimizer, device):
    criterion = nn.CrossEntropyLoss()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
"""
MAIN = """\
import torch
from engine import train_epoch
from model import Net

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters())
loader = [(torch.randn(4, 8), torch.zeros(4, dtype=torch.long)) for _ in range(4)]
for epoch in range(2):
    train_epoch(model, loader, optimizer, device)
"""
CLOSURE = """\
import torch


def fit(model, data):
    optimizer = torch.optim.LBFGS(model.cuda().parameters())

    def closure():
        optimizer.zero_grad()
        loss = model(data).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
"""


def notebook(source: str) -> str:
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": "a",
        "metadata": {},
        "outputs": [],
        "source": source.splitlines(keepends=True),
    }
    kernel = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
    return json.dumps({"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


class Repository:
    """A git repository with hooks of `.pre-commit-hooks.yaml`, run by this checkout."""

    def __init__(self, folder: Path, *hooks: str, **changed: object) -> None:
        folder.mkdir()
        self.folder = folder
        named = {hook["id"]: hook for hook in HOOKS}
        local = [{**named[name], **changed} for name in hooks]
        for hook in local:
            words = shlex.split(hook["entry"])
            assert words[0] == "amp-migrate"
            hook["entry"] = shlex.join([sys.executable, "-m", "amp_migrate", *words[1:]])
            hook["language"] = "system"
        config = {"repos": [{"repo": "local", "hooks": local}]}
        self.git("init", "-q")
        (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def git(self, *args: str) -> str:
        settings = ["user.name=a", "user.email=a@example.org", "commit.gpgsign=false"]
        flags = [word for setting in settings for word in ("-c", setting)]
        ran = subprocess.run(
            ["git", *flags, *args], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return ran.stdout

    def commit(self) -> subprocess.CompletedProcess[str]:
        """What `git commit` runs once `pre-commit install` was called."""
        self.git("add", "-A")
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PRE_COMMIT_HOME": str(self.folder.parent / "cache"),
        }
        return subprocess.run(
            [TOOL, "run", "--color", "never"],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def put(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name.replace("_ipynb", ".ipynb").replace("_py", ".py")).write_text(text)


def test_the_rewrite_comes_before_lint() -> None:
    assert [hook["id"] for hook in HOOKS] == ["amp-migrate", "amp-migrate-lint"]
    assert all(hook["types_or"] == ["python", "jupyter"] for hook in HOOKS)


def test_a_project_is_green_after_one_round(tmp_path: Path) -> None:
    """Only one of three files is part of the commit that is stopped; a refused loop stops none."""
    repository = Repository(tmp_path / "project", "amp-migrate", "amp-migrate-lint")
    repository.put(main_py=MAIN, model_py=MODEL, closure_py=CLOSURE)
    (repository.folder / "requirements.txt").write_text("torch>=2.4\n")
    repository.git("add", "-A")
    repository.git("commit", "-qm", "before")
    repository.put(engine_py=ENGINE, train_ipynb=notebook(PLAIN), old_py=OLD)
    ran = repository.commit()
    assert ran.returncode == 1
    assert "files were modified by this hook" in ran.stdout
    texts = {file.name: file.read_text() for file in repository.folder.glob("[!.]*")}
    assert "scaler=scaler" in texts["main.py"]
    assert "scaler.step(optimizer)" in texts["engine.py"]
    assert "scaler.step(optimizer)" in texts["train.ipynb"]
    again = repository.commit()
    assert again.returncode == 0, again.stdout
    assert again.stdout.count("Passed") == 2


def test_a_hook_that_sees_one_file_names_the_others(tmp_path: Path) -> None:
    entry = "amp-migrate migrate --strict"
    repository = Repository(tmp_path / "project", "amp-migrate", pass_filenames=True, entry=entry)
    repository.put(main_py=MAIN, model_py=MODEL)
    repository.git("add", "-A")
    repository.git("commit", "-qm", "before")
    repository.put(engine_py=ENGINE)
    ran = repository.commit()
    assert ran.returncode == 1
    assert "callers-in-other-modules" in ran.stdout
    assert "main.py" in ran.stdout
    assert (repository.folder / "engine.py").read_text() == ENGINE


def test_the_lint_hook_stops_a_commit(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project", "amp-migrate-lint")
    repository.put(train_py=OLD)
    ran = repository.commit()
    assert ran.returncode == 1
    assert "train.py:3:10: info deprecated-cuda-amp" in ran.stdout
    repository.put(train_py=NEW)
    ran = repository.commit()
    assert (ran.returncode, "Passed" in ran.stdout) == (0, True)


def test_the_lint_hook_reads_notebooks(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project", "amp-migrate-lint")
    repository.put(train_ipynb=notebook(OLD))
    ran = repository.commit()
    assert ran.returncode == 1
    assert "train.ipynb:cell 1:3:10: info deprecated-cuda-amp" in ran.stdout
