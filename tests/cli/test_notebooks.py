"""Notebooks on the command line: what is told of them, and how."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from amp_migrate.pipeline.lint import batch as lintbatch
from tests.cli.conftest import Run, python
from tests.notebooks import code, markdown, notebook, sources

Write = Callable[..., Path]

LOOP = "# é\n%time\nfor x in data:\n    loss.backward()"
BARE = """\
%matplotlib inline
import torch
scaler = torch.amp.GradScaler("cuda")"""
STEP = """\
for x, y in loader:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    optimizer.step()
    scaler.update()
"""
OLD = "import torch\n%time scaler = torch.cuda.amp.GradScaler()"


@pytest.fixture
def lint(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(lintbatch, "WORTH_BYTES", float("inf"))
    return lambda *args: run("lint", *args)


def test_migrated_in_place_and_told_by_cell(run: Run, write: Write) -> None:
    path = write("a.ipynb", notebook(markdown("x"), LOOP).decode())
    ran = run("a.ipynb")
    assert ran.code == 0
    assert ran.text.startswith("migrated  a.ipynb:cell 2:1 in <module>\n")
    assert path.read_bytes() == notebook(
        markdown("x"), LOOP.replace("loss.b", "scaler.scale(loss).b")
    )


def test_json_has_the_cell(run: Run, write: Write) -> None:
    write("a.ipynb", notebook(markdown("x"), LOOP).decode())
    write("b.py", "loss.backward()\n")
    files = json.loads(run("--check", ".", "--output-format", "json").out)["files"]
    assert [{key: one["loops"][0].get(key) for key in ("cell", "line")} for one in files] == [
        {"cell": 2, "line": 1},
        {"cell": None, "line": 2},
    ]
    assert "cell" not in files[1]["loops"][0]


def test_the_diff_is_a_patch(run: Run, write: Write, tmp_path: Path) -> None:
    data = notebook("a = 1", LOOP)
    path = write("a.ipynb", data.decode())
    ran = run("--diff", "a.ipynb")
    assert ran.text.startswith("--- a/a.ipynb\n+++ b/a.ipynb\n@@ ")
    assert path.read_bytes() == data
    (tmp_path / "p.diff").write_bytes(ran.out)
    subprocess.run(["git", "apply", "p.diff"], cwd=tmp_path, check=True)
    patched = path.read_bytes()
    path.write_bytes(data)
    run("a.ipynb")
    assert path.read_bytes() == patched != data


def test_what_is_no_notebook_fails_with_its_place(run: Run, write: Write) -> None:
    write("a.ipynb", '{"backward": 1,\n}')
    write("m.ipynb", "{}")
    ran = run(".")
    assert ran.code == 1
    assert "failed    a.ipynb:2:1\n" in ran.text
    assert "(2 files looked at)" in ran.text


def test_findings_are_told_by_cell(lint: Run, write: Write) -> None:
    write("a.ipynb", notebook(markdown("x"), BARE, STEP).decode())
    ran = lint("a.ipynb")
    assert ran.code == 1
    assert ran.text.startswith("a.ipynb:cell 3:5:5: error bare-optimizer-step: ")
    assert "5 |     optimizer.step()\n  |     ^^^^" in ran.text
    (found,) = json.loads(
        lint("a.ipynb", "--output-format", "json", "--select", "bare-optimizer-step").out
    )
    assert (found["cell"], found["line"], found["column"]) == (3, 5, 5)


def test_related_places_are_told_by_cell(lint: Run, write: Write) -> None:
    write("a.ipynb", notebook(BARE, STEP).decode())
    found = json.loads(lint("a.ipynb", "--output-format", "json").out)
    related = [one for finding in found for one in finding["related"]]
    assert related
    assert all(", cell " in one["message"] for one in related)


def test_columns_count_the_magic_before_a_statement(lint: Run, write: Write) -> None:
    write("a.ipynb", notebook(OLD).decode())
    ran = lint("a.ipynb", "--select", "deprecated-cuda-amp", "-q")
    assert ran.text.startswith("a.ipynb:cell 1:2:16: ")
    assert "2 | %time scaler = torch.cuda.amp.GradScaler()\n  |                ^^^^" in ran.text


def test_columns_count_the_blanks_before_a_cell(lint: Run, write: Write) -> None:
    write("a.ipynb", notebook("import torch", "    scaler = torch.cuda.amp.GradScaler()").decode())
    ran = lint("a.ipynb", "--select", "deprecated-cuda-amp", "-q")
    assert ran.text.startswith("a.ipynb:cell 2:1:14: ")


def test_fixes_stay_in_their_cells(lint: Run, write: Write) -> None:
    path = write("a.ipynb", notebook(BARE, code(STEP), "!ls").decode())
    assert lint("a.ipynb", "--fix", "--select", "bare-optimizer-step").code == 0
    assert path.read_bytes() == notebook(
        BARE, STEP.replace("optimizer.step()", "scaler.step(optimizer)"), "!ls"
    )


def test_the_diff_of_fixes(lint: Run, write: Write) -> None:
    write("a.ipynb", notebook(OLD).decode())
    ran = lint("a.ipynb", "--diff", "--unsafe-fixes", "--select", "deprecated-cuda-amp")
    assert ran.text.startswith("--- a/a.ipynb\n+++ b/a.ipynb\n@@ ")
    assert '%time scaler = torch.amp.GradScaler(\\"cuda\\")' in ran.text


def test_a_name_makes_standard_input_a_notebook(lint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    data = notebook(OLD)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    ran = lint(
        "--stdin-filename",
        "a.ipynb",
        "--fix",
        "--unsafe-fixes",
        "--select",
        "deprecated-cuda-amp",
        "-",
    )
    assert sources(ran.out) == [OLD.replace(".cuda.amp.GradScaler()", '.amp.GradScaler("cuda")')]


def test_ignores_work_in_cells(lint: Run, write: Write) -> None:
    silent = STEP.replace(
        "optimizer.step()", "optimizer.step()  # amp-migrate: ignore[bare-optimizer-step] known"
    )
    write("a.ipynb", notebook(BARE, silent).decode())
    assert lint("a.ipynb", "--select", "bare-optimizer-step,unused-ignore").code == 0
    write("a.ipynb", notebook("# amp-migrate: ignore[bare-optimizer-step]\n" + BARE, STEP).decode())
    assert lint("a.ipynb", "--select", "bare-optimizer-step,unused-ignore").code == 0
    write(
        "a.ipynb",
        notebook(BARE, silent.replace("optimizer.step()", "scaler.step(optimizer)")).decode(),
    )
    ran = lint("a.ipynb", "--select", "bare-optimizer-step,unused-ignore")
    assert "cell 2:5:29: warning unused-ignore" in ran.text


def test_ignores_are_added_to_cells(lint: Run, write: Write) -> None:
    path = write("a.ipynb", notebook(BARE, STEP, OLD).decode())
    lint("a.ipynb", "--add-ignore", "--select", "bare-optimizer-step,deprecated-cuda-amp")
    first, second, third = sources(path.read_bytes())
    assert first == BARE
    assert "    optimizer.step()  # amp-migrate: ignore[bare-optimizer-step]\n" in second
    assert third == OLD + "  # amp-migrate: ignore[deprecated-cuda-amp]"
    assert (
        lint("a.ipynb", "--select", "bare-optimizer-step,deprecated-cuda-amp,unused-ignore").code
        == 0
    )


def test_a_baseline_knows_cells(lint: Run, write: Write) -> None:
    write("a.ipynb", notebook(BARE, STEP).decode())
    lint("a.ipynb", "--write-baseline", "known.json")
    write("a.ipynb", notebook(markdown("moved"), BARE, "x = 1", STEP).decode())
    assert lint("a.ipynb", "--baseline", "known.json").code == 0


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        ("github", ["file=a.ipynb,line=1,endLine=1", "::a.ipynb:cell 2:5:5: bare-optimizer-step"]),
        ("gitlab", ['"begin": 1', '"description": "cell 2, line 5: ']),
        ("sarif", ['"startLine": 1', '"text": "cell 2, line 5: ']),
        ("junit", ['type="bare-optimizer-step"', "cell 2, line 5, column 5"]),
        ("concise", ["a.ipynb:cell 2:5:5: error"]),
    ],
)
def test_services_that_count_lines_of_files(
    lint: Run, write: Write, form: str, parts: list[str]
) -> None:
    write("a.ipynb", notebook(BARE, STEP).decode())
    ran = lint("a.ipynb", "--select", "bare-optimizer-step", "--output-format", form)
    assert [part for part in parts if part not in ran.text] == []


def test_a_cell_that_does_not_parse_is_a_finding(lint: Run, write: Write) -> None:
    write("a.ipynb", notebook(BARE, "print 1\nloss.backward()").decode())
    ran = lint("a.ipynb", "--select", "syntax")
    assert ran.text.startswith("a.ipynb:cell 2:1:1: error syntax: ")
    write("a.ipynb", '{"cells": 1, "x": "backward"}')
    assert lint("a.ipynb").text.startswith("a.ipynb:1:11: error syntax: no JSON")


def test_neither_torch_nor_libcst_is_imported(write: Write, tmp_path: Path) -> None:
    write("a.ipynb", notebook(BARE, STEP).decode())
    program = (
        "import sys\nfrom amp_migrate.cli import main\ncode = main(['lint', 'a.ipynb'])\n"
        "print(code, sorted({'torch', 'libcst'} & set(sys.modules)))"
    )
    assert python("-c", program, cwd=tmp_path).stdout.endswith("1 []\n")


ENGINE = """\
import torch


def train_one_epoch(model, loader, optimizer, criterion, device):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
"""
USE = """\
%matplotlib inline
import torch
from engine import train_one_epoch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
CALL = "%time train_one_epoch(model, loader, optimizer, criterion, device)"
MAIN = "\n".join([*USE.splitlines()[1:], CALL.removeprefix("%time "), ""])


def test_a_notebook_that_calls_a_module_gets_the_scaler_with_it(
    write: Write, tmp_path: Path
) -> None:
    engine, book = write("engine.py", ENGINE), write("run.ipynb", notebook(USE, CALL).decode())
    assert python("-m", "amp_migrate", ".", cwd=tmp_path).returncode == 0
    assert "criterion, device, scaler):" in engine.read_text()
    scaler = '\nscaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")'
    assert sources(book.read_bytes()) == [
        USE + scaler,
        CALL.replace("device)", "device, scaler=scaler)"),
    ]


def test_a_notebook_that_is_not_named_is_not_left_behind(write: Write, tmp_path: Path) -> None:
    engine, main = write("engine.py", ENGINE), write("main.py", MAIN)
    write("run.ipynb", notebook(USE, CALL).decode())
    ran = python("-m", "amp_migrate", "engine.py", "main.py", cwd=tmp_path)
    assert "callers-in-other-modules" in ran.stdout
    assert (engine.read_text(), main.read_text()) == (ENGINE, MAIN)
