"""Programs of several files: the scaler is threaded through all of them, or none changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from amp_migrate.cli.batch import rewrite_all
from amp_migrate.config import Settings
from amp_migrate.source.discovery import discover

ENGINE = """
    import torch


    def train_one_epoch(model, loader, criterion, optimizer, device):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
MAIN = """
    import torch
    from torch import nn
    from engine import train_one_epoch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        train_one_epoch(model, [], nn.MSELoss(), optimizer, device)
"""
SOLVER = """
    import torch


    class Solver:
        def __init__(self, model, optimizer, loader):
            self.model = model
            self.optimizer = optimizer
            self.loader = loader

        def epoch(self):
            for x, y in self.loader:
                loss = torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
"""
NOAM = """
    class Noam:
        def __init__(self, optimizer):
            self.optimizer = optimizer
            self.count = 0

        def zero_grad(self):
            self.optimizer.zero_grad()

        def step(self):
            self.count += 1
            self.optimizer.step()
"""
RUN = """
    import torch
    from torch import nn
    from solver import Solver

    model = nn.Linear(4, 2).cuda()
    Solver(model, torch.optim.Adam(model.parameters()), []).epoch()
"""


@dataclass(frozen=True)
class Tree:
    """What became of a little project, by the names of its files."""

    texts: dict[str, str]
    loops: dict[str, list[tuple[str, str | None]]]
    messages: str

    def line(self, file: str, text: str) -> bool:
        """Whether `text` is a line of a file, whatever its indent."""
        return text in [line.strip() for line in self.texts[file].splitlines()]


def migrated(folder: Path, *, only: str = "", device: str | None = "cuda", **files: str) -> Tree:
    """Migrate the files, given by names with `__` for folders' ends; `only` names the one that may be written."""
    texts = {name.replace("__", "/").strip("/") + ".py": dedent(text).lstrip("\n") for name, text in files.items()}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "pyproject.toml").touch()
    found = list(discover([folder / only if only else folder], []))
    results = {str(r.outcome.path): r for r in rewrite_all(found, Settings(device=device), write=False).results}
    by_name = {name: next((r for p, r in results.items() if Path(p) == folder / name), None) for name in texts}
    assert not [r.outcome.error for r in results.values() if r.outcome.status == "failed"]
    return Tree(
        {n: r.after.decode() if r and r.outcome.status == "migrated" else texts[n] for n, r in by_name.items()},
        {n: [(x.status, x.reason) for x in r.outcome.loops] if r else [] for n, r in by_name.items()},
        "\n".join(x.message or "" for r in results.values() for x in r.outcome.loops),
    )


def untouched(tree: Tree) -> bool:
    """Whether no file has AMP."""
    return not any("autocast" in text or "GradScaler" in text for text in tree.texts.values())


# -- the scaler goes where the optimizer goes


def test_the_scaler_is_made_beside_the_optimizer_and_passed(tmp_path: Path) -> None:
    tree = migrated(tmp_path, engine=ENGINE, main=MAIN)
    assert tree.line("main.py", 'scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")')
    assert tree.line("main.py", "train_one_epoch(model, [], nn.MSELoss(), optimizer, device, scaler=scaler)")
    assert tree.line("engine.py", "def train_one_epoch(model, loader, criterion, optimizer, device, scaler):")


def test_a_folder_that_the_search_path_names_is_found(tmp_path: Path) -> None:
    main = MAIN.replace("from engine", "import _init_paths\n    from core.engine")
    tree = migrated(tmp_path, lib__core__engine=ENGINE, tools__main=main, lib__core____init__="", tools___init_paths="")
    assert "optimizer, device, scaler=scaler)" in tree.texts["tools/main.py"]
    assert "scaler=None" not in tree.texts["lib/core/engine.py"]


def test_two_files_of_one_name_off_the_search_path_are_nobodys(tmp_path: Path) -> None:
    tree = migrated(tmp_path, one__engine=ENGINE, two__engine=ENGINE, tools__main=MAIN)
    assert "scaler" not in tree.texts["tools/main.py"]
    assert "scaler=None" in tree.texts["one/engine.py"]


# -- what only the callers know


def test_an_object_made_elsewhere_holds_a_torch_optimizer(tmp_path: Path) -> None:
    tree = migrated(tmp_path, solver=SOLVER, run=RUN)
    assert tree.loops["solver.py"] == [("migrated", None)]


@pytest.mark.parametrize("folder", ["", "solver__"])
def test_an_object_made_elsewhere_holds_a_wrapper(tmp_path: Path, folder: str) -> None:
    run = RUN.replace("torch.optim.Adam(model.parameters())", "Noam(torch.optim.Adam(model.parameters()))")
    run = run.replace("from solver", "from optimizer import Noam\n    from solver")
    files = {f"{folder}solver": SOLVER, f"{folder}optimizer": NOAM, "bin__run" if folder else "run": run}
    tree = migrated(tmp_path, **files, **({f"{folder}__init__": ""} if folder else {}))
    assert untouched(tree)
    assert [loops for loops in tree.loops.values() if loops] == [[("refused", "optimizer-wrapper")]]


def test_a_wrapper_that_steps_by_another_name(tmp_path: Path) -> None:
    engine = ENGINE.replace("optimizer.step()", "optimizer.step_and_update_lr()")
    tree = migrated(tmp_path, engine=engine, main=MAIN)
    assert tree.loops["engine.py"] == [("refused", "optimizer-wrapper")]
