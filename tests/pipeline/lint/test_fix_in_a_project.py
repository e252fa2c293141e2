"""`lint --fix` writes what `migrate` writes, or leaves the file to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import python

Write = Callable[..., Path]
ENGINE = """import torch
import torch.nn.functional as F


def train(model, loader, optimizer, device):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
"""
MAIN = """import torch
from engine import train

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    train(model, [], optimizer, device)
"""
LONE = MAIN.replace("from engine import train\n", "").replace(
    "    train(model, [], optimizer, device)\n",
    """    for x, y in []:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
""",
)


def test_a_loop_with_callers_in_other_files_is_left_to_migrate(
    write: Write, tmp_path: Path
) -> None:
    """By itself the function would get a scaler that nobody passes."""
    engine, main = write("engine.py", ENGINE), write("main.py", MAIN)
    done = python("-m", "amp_migrate", "lint", "--fix", "engine.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "can rewrite it, together with main.py" in " ".join(done.stdout.split())
    assert "[*]" not in done.stdout
    assert engine.read_text() == ENGINE
    python("-m", "amp_migrate", "lint", "--fix", ".", cwd=tmp_path)
    assert (engine.read_text(), main.read_text()) == (ENGINE, MAIN)
    assert python("-m", "amp_migrate", ".", cwd=tmp_path).returncode == 0
    assert "scaler.step(optimizer)" in engine.read_text()
    assert "scaler" in main.read_text()


def test_a_loop_by_itself_comes_out_the_same(write: Write, tmp_path: Path) -> None:
    for command in (("lint", "--fix"), ("migrate",)):
        path = write(f"{command[0]}/a.py", LONE)
        python("-m", "amp_migrate", *command, str(path.parent), cwd=tmp_path)
    fixed, migrated = (tmp_path / name / "a.py" for name in ("lint", "migrate"))
    assert fixed.read_text() == migrated.read_text() != LONE


def test_a_loop_that_gets_its_region_from_another_file_uses_amp(
    write: Write, tmp_path: Path
) -> None:
    """The plain backward is the branch without a scaler; a caller says which region is entered."""
    region = "with region:\n            loss"
    engine = ENGINE.replace("device):", "device, region):").replace("loss", region, 1)
    switch = "region = torch.autocast('cuda', enabled=device.type == 'cuda')\nfor epoch"
    main = MAIN.replace("for epoch", switch).replace("device)\n", "device, region)\n")
    assert "train(model, [], optimizer, device, region)" in main
    write("engine.py", engine)
    write("main.py", main.replace(".to(device, region)", ".to(device)"))
    select = ("--select", "loop-without-amp")
    done = python("-m", "amp_migrate", "lint", *select, ".", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Nothing found in 2 files.")
    plain = python("-m", "amp_migrate", "lint", *select, "engine.py", cwd=tmp_path)
    assert plain.returncode == 0
