"""Programs at the limits of parsers: migrated, or left alone with a plain reason."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text
from amp_migrate.pipeline.one_file import rewrite_bytes

Write = Callable[..., Path]
LOOP = """import torch

model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""
CELL = {"cell_type": "code", "source": LOOP, "metadata": {}, "outputs": []}
BOOK = json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
DEEP = "[" * 50_000 + "]" * 50_000
MIGRATED = {
    "form feed before a statement": LOOP.replace("optimizer =", "\x0coptimizer ="),
    "form feed before the loop": LOOP.replace("for x", " \x0cfor x"),
    "form feed in the loop": LOOP.replace("    loss =", "\x0c    loss ="),
    "form feed within a line": LOOP.replace("loss.back", "loss\x0c.back"),
    "a line of a form feed": LOOP.replace("import torch\n", "import torch\n\x0c\n"),
    "alternatives": LOOP + "s = " + " or ".join(f"a{i}" for i in range(10_000)) + "\n",
    "comparisons": LOOP + "s = " + " < ".join(f"a{i}" for i in range(3_000)) + "\n",
    "strings": LOOP + "s = (" + "'a' 'b'\n" * 10_000 + ")\n",
    "brackets": LOOP + "x = " + "[" * 90 + "]" * 90 + "\n",
    "blocks": LOOP + "".join("    " * i + "if a:\n" for i in range(95)) + "    " * 95 + "pass\n",
}
LEFT = {
    "sum": LOOP + "total = " + "+".join(["1"] * 10_000) + "\n",
    "sum in the loop": f"{LOOP}    total = {'+'.join(['1'] * 10_000)}\n",
    "signs": f"{LOOP}y = {'-' * 20_000}1\n",
    "functions": f"{LOOP}y = {'lambda: ' * 3_000}1\n",
    "too many brackets": f"{LOOP}x = {'(' * 300}{')' * 300}\n",
}
BOOKS = {
    "cells": f'{{"cells":{DEEP},"nbformat":4}}  backward',
    "open": "[" * 50_000 + '"loss.backward()"',
    "metadata": BOOK.replace('"metadata": {}, "nbformat"', f'"metadata": {DEEP}, "nbformat"'),
}


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "amp_migrate", *args]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def told(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stderr
    assert "report" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("name", MIGRATED)
def test_migrated(write: Write, tmp_path: Path, name: str) -> None:
    write("a.py", MIGRATED[name])
    said = told(run(tmp_path, "--check", "--output-format", "json", "."))
    assert json.loads(said)["files"][0]["status"] == "migrated"


@pytest.mark.parametrize("name", LEFT)
def test_left_alone_and_the_next_file_is_not(write: Write, tmp_path: Path, name: str) -> None:
    write("a.py", LEFT[name])
    write("b.py", LOOP)
    said = told(run(tmp_path, "--check", "."))
    assert "nested too deeply to be read" in said or "too many nested parentheses" in said
    assert "planned b.py:8" in said
    told(run(tmp_path, "lint", "."))


@pytest.mark.parametrize("name", BOOKS)
def test_notebooks(write: Write, tmp_path: Path, name: str) -> None:
    write("a.ipynb", BOOKS[name])
    write("b.ipynb", BOOK)
    said = told(run(tmp_path, "--check", "."))
    assert "failed a.ipynb" in said
    assert "planned b.ipynb:cell 1:8" in said
    told(run(tmp_path, "lint", "."))


def test_a_thousand_elif(write: Write, tmp_path: Path) -> None:
    chain = "".join(f"elif a == {i}:\n    b = {i}\n" for i in range(1_000))
    write("a.py", f"{LOOP}if a == 0:\n    pass\n{chain}")
    assert "planned a.py:8" in told(run(tmp_path, "--check", "."))


# -- standard output that takes nothing


@pytest.mark.parametrize("command", [("--check",), ("--diff",), ("lint",), ("explain",)])
def test_a_full_disk_behind_standard_output(
    write: Write, tmp_path: Path, command: tuple[str]
) -> None:
    write("a.py", LOOP)
    names = [] if command == ("explain",) else ["a.py"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "amp_migrate", *command, *names],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 74
    assert done.stderr.splitlines()[-1].startswith("amp-migrate: standard output cannot be written")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [("--check",), ("--diff",), ("lint",), ("explain",)])
def test_nobody_reads_standard_output(write: Write, tmp_path: Path, command: tuple[str]) -> None:
    write("a.py", LOOP)
    names = [] if command == ("explain",) else ["a.py"]
    with subprocess.Popen(
        [sys.executable, "-m", "amp_migrate", *command, *names],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode in (1, 141)
    assert "Traceback" not in said
    assert "Exception ignored" not in said


IN_A_CIRCLE = """
import torch
import torch.nn as nn
class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.child = Net(depth - 1) if depth else None
    def forward(self, x):
        return self.fc(self.down(x))
    def down(self, x, cond=None):
        if self.child is not None:
            return self.child.down(x, cond)
        return x * cond["scale"]
model = Net(3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x in loader:
    loss = model(x.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_parameter_that_is_handed_to_the_namesake_of_its_method() -> None:
    [loop] = migrate_text(IN_A_CIRCLE, "train.py", Settings()).loops
    assert loop.status == "migrated"


def test_a_circle_of_the_tool_itself_is_not_told_as_nesting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def circle(*given: object, **named: object) -> None:
        circle(*given, **named)

    monkeypatch.setattr("amp_migrate.pipeline.migrate.migrate_text", circle)
    done = rewrite_bytes("train.py", LOOP.encode(), Settings())
    assert "internal error (RecursionError" in (done.outcome.error or "")
    assert len((done.internal or "").splitlines()) < 200


def test_nesting_is_told_as_such() -> None:
    done = rewrite_bytes("train.py", f"{LOOP}x = {'+'.join(['1'] * 30_000)}\n".encode(), Settings())
    assert "nested too deeply to be read" in (done.outcome.error or "")
