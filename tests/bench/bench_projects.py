"""CPU time on projects whose files belong together, of this checkout and of another one.

`python -m tests.bench.bench_projects [OTHER_CHECKOUT [RUNS]]` makes the projects, runs
`migrate --check` on each in one process, with this checkout and, where one is named, with the
other, in turn, and prints a table in Markdown with the medians and their ratios; then what a hook
on one file with AMP costs, in units of `python -c "import click"`. A run that takes longer than
100 s of CPU is cut off.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.bench_migrate import ROOT, compile_package, make_tree

LIMIT = 100
# One process: a worker imports what is installed, which need not be the checkout that it works for.
# It ends as the program ends, which leaves its memory to the system.
MIGRATE = """
import sys
sys.path.insert(0, "")
from amp_migrate.pipeline import workers
workers.workers_for = lambda *_, **__: 0
from amp_migrate.cli import console
sys.argv[1:1] = ["migrate", "--check"]
console()
"""
HOOKED = ROOT / "fixtures" / "accumulation_boundary" / "after.py"
BASE = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x):
        return self.fc(x)


class Base:
    def __init__(self, device):
        self.device = torch.device(device)
        self.model = Net().to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
"""
ALGORITHM = """import torch
from torch import nn

from lib.{module} import {base}


class Algo{number}({base}):
    def loss(self, x, y):
        out = self.model(x)
        return nn.functional.l1_loss(out, y) + {number} * out.abs().mean()

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = self.loss(x.to(self.device), y.to(self.device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
"""
STEP = """import torch
import torch.nn.functional as F


def train_{number}(model, loader, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), {number} + 1.0)
        optimizer.step()
"""
MAIN = """import torch
{imports}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = []
{calls}"""


def library(root: Path, files: int) -> None:
    """Algorithms that inherit from each other; their base makes the optimizer."""
    folder = root / "lib"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "base.py").write_text(BASE)
    for number in range(files - 2):
        above = (number - 5) // 3
        module, base = ("base", "Base") if number < 5 else (f"algo_{above:03}", f"Algo{above}")
        text = ALGORITHM.format(number=number, module=module, base=base)
        (folder / f"algo_{number:03}.py").write_text(text)


def component(root: Path, files: int) -> None:
    """A script that hands one optimizer to training functions in files of their own."""
    root.mkdir(parents=True)
    numbers = range(files - 1)
    imports = "".join(f"from step_{number:03} import train_{number}\n" for number in numbers)
    calls = "".join(f"train_{number}(model, loader, optimizer, device)\n" for number in numbers)
    (root / "main.py").write_text(MAIN.format(imports=imports, calls=calls))
    for number in numbers:
        (root / f"step_{number:03}.py").write_text(STEP.format(number=number))


def used(checkout: Path, *args: str) -> float:
    """CPU seconds of `python ARGS` in a checkout; infinite where it is cut off."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *args],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT)),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds if done.returncode in (0, 1) else float("inf")


def in_turn(checkouts: list[Path], runs: int, *args: str) -> list[float]:
    """The median for each checkout, one run after the other."""
    found = [[used(checkout, *args) for checkout in checkouts] for _ in range(runs)]
    return [statistics.median(own) for own in zip(*found, strict=True)]


def table(root: Path, other: Path | None, runs: int) -> Iterator[str]:
    """The rows, one for each project."""
    checkouts = [ROOT, *([other] if other is not None else [])]
    for checkout in checkouts:
        compile_package(checkout)
    make_tree_of = {
        "library of 30 files, heirs of each other": lambda folder: library(folder, 30),
        "library of 100 files, heirs of each other": lambda folder: library(folder, 100),
        "130 files in one component": lambda folder: component(folder, 130),
        "1,300 files with 180 loops": make_tree,
    }
    yield "| project | before, CPU s | now, CPU s | ratio |"
    yield "|---|---:|---:|---:|"
    for number, (name, make) in enumerate(make_tree_of.items()):
        folder = root / str(number)
        if make is make_tree:
            folder.mkdir()
        make(folder)
        yield _row(name, in_turn(checkouts, runs, "-c", MIGRATE, str(folder)))
    hook = ("-m", "amp_migrate", "lint", "--exit-zero", str(HOOKED))
    [click] = in_turn([ROOT], 5 * runs, "-c", "import click")
    starts = [one / click for one in in_turn(checkouts, 5 * runs, *hook)]
    yield _row("hook on one file, in units of `import click`", starts)


def _row(name: str, found: list[float]) -> str:
    now, before = found[0], found[1] if len(found) > 1 else float("nan")
    return f"| {name} | {_told(before)} | {_told(now)} | {before / now:.1f} |"


def _told(seconds: float) -> str:
    return f"over {LIMIT}" if seconds == float("inf") else f"{seconds:.1f}"


def main(args: list[str]) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(args[0]).resolve() if args else None
        runs = int(args[1]) if len(args) > 1 else 1
        for line in table(Path(folder).resolve(), other, runs):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
