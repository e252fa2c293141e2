"""Public scripts that nobody chose for their ease under `amp-migrate verify --device cpu`.

    python -m tests.bench.verify_public [--seeds 3] [--costs] FOLDER [NAME...]

FOLDER holds checkouts called OWNER+NAME. Taken is every script of these repositories that calls
`backward` and whose data are its own or a dataset of torchvision, which is made up (`stand_ins`).
One without device code runs with `--program-device cuda`. numpy, torchvision and matplotlib must be
installed: what lies elsewhere on the path is taken for a part of the program.

Prints a row for each, in the order of the names: the verdict of the first seed with all checks, and
those of the others with `--quick`. All runs of a seed are forked from one process, which has
imported the libraries before: hours less. `--costs` asks instead what a whole `verify --quick`
costs against the plain run of as many steps, in CPU seconds.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from amp_migrate.cli.verify import verify as command
from amp_migrate.runtime import command as command_of
from amp_migrate.runtime import verify as runs
from amp_migrate.runtime.supervise import Limits, Supervisor, Watch
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


class Kept(Supervisor):
    """Serves one program after the other."""

    def __exit__(self, *_: object) -> None:
        """Nothing ends with a program."""

    def watched(self, watch: Watch) -> Kept:
        """For the next program."""
        self._watch = watch
        return self


@functools.cache
def _kept(limits: Limits, seed: int, device: str) -> Kept:
    return Kept(limits, seed, device, lambda *_: None)


def verified(script: Script, folder: Path, seed: int, quick: bool) -> Result:
    """The verdict on a copy, by the command's own function."""
    words = [*_options(script, folder, seed, quick), script.path.name, *_arguments(script)]
    given = command.make_context("verify", words).params
    with (
        tempfile.TemporaryDirectory(prefix="public-") as copy,
        _inside(_copied(script, folder, Path(copy))),
    ):
        report, _ = command_of.verified(given.pop("program"), given.pop("arguments"), given)
    return Result(report.verdict, report.as_json(), "")


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _options(script: Script, folder: Path, seed: int, quick: bool) -> list[str]:
    words = [
        "--device",
        "cpu",
        "--steps",
        str(script.steps),
        "--seed",
        str(seed),
        "--timeout",
        "300",
    ]
    words += ["--program-device", "cuda"] * (not script.uses_a_gpu(folder))
    return [*words, *["--quick"] * quick]


def _arguments(script: Script) -> tuple[str, ...]:
    return ARGUMENTS.get(script.repository, ())


def costs(script: Script, folder: Path) -> tuple[float, float]:
    """CPU seconds of `verify --quick` by itself, and of as many steps without verify."""
    words = ["-m", "amp_migrate", "verify", *_options(script, folder, 1, quick=True)]
    return _seconds(words, script, folder, {}), _seconds(
        [], script, folder, {"STOP_AFTER": str(script.steps)}
    )


def _copied(script: Script, folder: Path, copy: Path) -> Path:
    """The script's folder, two folders deep, so that `../../data` is in the copy."""
    here = copy / "a" / "b"
    shutil.copytree((folder / script.repository / script.path).parent, here)
    return here


def _seconds(words: list[str], script: Script, folder: Path, more: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory(prefix="public-") as copy:
        command = [sys.executable, *words, script.path.name, *_arguments(script)]
        began = _children()
        subprocess.run(
            command,
            cwd=_copied(script, folder, Path(copy)),
            env={**os.environ, **more},
            capture_output=True,
            check=False,
            timeout=1200,
        )
        return _children() - began


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(script: Script, folder: Path, seeds: int) -> str:
    """One line of the table."""
    verdicts = []
    for seed in range(seeds):
        result = verified(script, folder, seed, quick=bool(seed))
        verdicts.append(told(result) if not seed or result.verdict != "pass" else "pass")
        if not result.report["runs"]:
            break
    return f"| {script.name} | {'; '.join(verdicts)} |"


def cost_row(script: Script, folder: Path) -> str:
    """One line of the other table."""
    verify, plain = costs(script, folder)
    return f"| {script.name} | {plain:.1f} | {verify:.1f} | {verify / plain:.1f} |"


def main(arguments: list[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="Public scripts under verify.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--costs", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    path = [str(STAND_INS), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ.update(OMP_NUM_THREADS="1", MPLBACKEND="Agg", PYTHONPATH=os.pathsep.join(path))
    found = {script.name: script for script in scripts(folder)}
    chosen = [found[name] for name in options.names or found]
    if options.costs:
        print("| Script | Plain, CPU s | `verify --quick`, CPU s | Ratio |\n|---|---:|---:|---:|")
        for script in chosen:
            print(cost_row(script, folder), flush=True)
        return
    os.environ["PRELOAD"] = "torchvision.datasets matplotlib.pyplot"
    setattr(runs, "Supervisor", _supervisor)  # noqa: B010 - the type differs
    print("| Script | Verdicts |\n|---|---|")
    for script in chosen:
        print(row(script, folder, options.seeds), flush=True)
    os._exit(0)  # what was kept ends with its input


def _supervisor(limits: Limits, seed: int, device: str, watch: Watch) -> Kept:
    return _kept(limits, seed, device).watched(watch)


if __name__ == "__main__":
    main()
