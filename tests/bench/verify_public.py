"""Public scripts that nobody chose for their ease under `amp-migrate verify --device cpu`.

    python -m tests.bench.verify_public FOLDER [--seeds 3] [NAME...]

FOLDER holds checkouts called OWNER+NAME. Taken is every script of these repositories that calls
`backward` and whose data are its own or a dataset of torchvision, which is made up (`stand_ins`).
One without device code runs with `--program-device cuda`. numpy, torchvision and matplotlib must be
installed: what lies elsewhere on the path is taken for a part of the program.

Prints a row for each, in the order of the names: the verdict of each seed, and what `--quick` costs
against the plain run of as many steps, in CPU seconds.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.verify_examples import ROOT, Result, told

STAND_INS = Path(__file__).parent / "stand_ins"
REPOSITORIES = {
    "yunjey+pytorch-tutorial": "tutorials",
    "MorvanZhou+PyTorch-Tutorial": "tutorial-contents",
    "eriklindernoren+PyTorch-GAN": "implementations",
    "jcjohnson+pytorch-examples": "",
    "graykode+nlp-tutorial": "",
}
NEEDS_MORE = (
    "ImageFolder", "ImageDataset", "Corpus()", "CelebADataset", "load_image(", "gym.make", "vocab_path",
    "mnistm", "torch.load('model.ckpt')", "get_loader", "from logger",
)  # fmt: skip
"""Pictures, texts, an environment, files of other programs or of other libraries."""
ARGUMENTS = {"eriklindernoren+PyTorch-GAN": ("--batch_size", "16", "--n_epochs", "1")}
STEPS = {"eriklindernoren+PyTorch-GAN": 6}
"""For all others it is 10."""


@dataclass(frozen=True)
class Script:
    """One of them; `path` within its repository."""

    repository: str
    path: Path

    @property
    def name(self) -> str:
        """Short, for the table."""
        parts = [part for part in self.path.with_suffix("").parts if part not in _SKIPPED]
        return f"{self.repository.partition('+')[2]}: {'/'.join(parts)}"

    @property
    def steps(self) -> int:
        """Optimizer steps in each run."""
        return STEPS.get(self.repository, 10)

    def uses_a_gpu(self, folder: Path) -> bool:
        """Whether it has device code."""
        text = (folder / self.repository / self.path).read_text(encoding="utf-8", errors="replace")
        return "cuda" in ast.unparse(ast.parse(text))


_SKIPPED = {*REPOSITORIES.values(), "main"}


def scripts(folder: Path) -> Iterator[Script]:
    """All that are taken, in the order of their paths."""
    for repository, below in REPOSITORIES.items():
        top = folder / repository
        for path in sorted((top / below).rglob("*.py")):
            text = path.read_text(encoding="utf-8", errors="replace")
            if ".backward()" in text and not any(word in text for word in NEEDS_MORE):
                yield Script(repository, path.relative_to(top))


def verified(script: Script, folder: Path, seed: int, quick: bool) -> tuple[Result, float]:
    """The verdict on a copy, and the CPU seconds that it took."""
    with tempfile.TemporaryDirectory(prefix="public-") as copy:
        report = Path(copy, "report.json")
        words = ["-m", "amp_migrate", "verify", "--device", "cpu", "--steps", str(script.steps)]
        words += ["--seed", str(seed), "--json", str(report), "--timeout", "200"]
        words += ["--program-device", "cuda"] * (not script.uses_a_gpu(folder))
        seconds, said = _ran([*words, *["--quick"] * quick], script, folder, Path(copy), {})
        if not report.is_file():
            return Result("not run", {}, said), seconds
        found = json.loads(report.read_text(encoding="utf-8"))
        return Result(found["verdict"], found, said), seconds


def plain(script: Script, folder: Path) -> float:
    """CPU seconds of as many steps without verify."""
    with tempfile.TemporaryDirectory(prefix="public-") as copy:
        return _ran([], script, folder, Path(copy), {"STOP_AFTER": str(script.steps)})[0]


def _ran(
    words: list[str], script: Script, folder: Path, copy: Path, more: dict[str, str]
) -> tuple[float, str]:
    """CPU seconds and output of a program in a copy of the script's folder, two folders deep, so
    that `../../data` is in the copy.
    """
    here = copy / "a" / "b"
    shutil.copytree((folder / script.repository / script.path).parent, here)
    path = [str(STAND_INS), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "PYTHONPATH": os.pathsep.join(path), **more,
    }  # fmt: skip
    command = [sys.executable, *words, script.path.name, *ARGUMENTS.get(script.repository, ())]
    began = _children()
    done = subprocess.run(
        command,
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    return _children() - began, done.stdout + done.stderr


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(script: Script, folder: Path, seeds: int) -> str:
    """One line of the table: the first seed in full, the others and the cost with --quick."""
    result, _ = verified(script, folder, 0, quick=False)
    if result.verdict == "not run" or "runs" not in result.report or not result.report["runs"]:
        return f"| {script.name} | {told(result)} | |"
    verdicts, cost = [told(result)], 0.0
    for seed in range(1, seeds):
        again, cost = verified(script, folder, seed, quick=True)
        verdicts.append(told(again) if again.verdict != "pass" else "pass")
    ratio = f"{cost / plain(script, folder):.1f}" if cost else ""
    return f"| {script.name} | {'; '.join(verdicts)} | {ratio} |"


def main(arguments: list[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="Public scripts under verify.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    print("| Script | Verdict | --quick against the plain run |\n|---|---|---|")
    found = {script.name: script for script in scripts(folder)}
    for name in options.names or found:
        print(row(found[name], folder, options.seeds), flush=True)


if __name__ == "__main__":
    main()
