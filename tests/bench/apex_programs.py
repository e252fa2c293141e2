"""Public programs that use `apex.amp`, migrated, linted, and run for a few steps on made-up data.

`python -m tests.bench.apex_programs REPOSITORY=FOLDER...` prints a Markdown table of the programs
below that are in the given checkouts, as in `microsoft/unilm@768a3c8=checkouts/unilm`. Nothing is
written to them. Packages that are not installed (transformers, TensorBoard) are stood in for,
models and data are made up; the training loop is the program's. torchvision must be there for one
of them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint.engine import lint
from amp_migrate.pipeline.migrate import migrate_text
from tests.bench.checkouts import Checkout, checkout, table

STEPS = 4
HEADER = ("Repository", "Commit", "Program", "Level", "Migrated", "Lint findings", "Steps run")
_LEVEL = re.compile(r"""amp\.initialize\([^)]*?opt_level\s*=\s*(?:["'](O\d)["']|[\w.]+)""")


@dataclass(frozen=True)
class Program:
    """A public program, and how `apex_runs` runs it."""

    repository: str
    path: str
    kind: str


PROGRAMS = (
    Program("microsoft/unilm", "minilm/examples/run_xnli.py", "transformers"),
    Program("microsoft/unilm", "adalm/finetune/run_classifier.py", "transformers"),
    Program("microsoft/unilm", "adalm/finetune/run_ner.py", "transformers"),
    Program("microsoft/unilm", "adalm/finetune/run_pico.py", "transformers"),
    Program("microsoft/unilm", "xtune/src/run_tag.py", "transformers"),
    Program("microsoft/unilm", "markuplm/examples/fine_tuning/run_swde/run.py", "transformers"),
    Program("microsoft/unilm", "markuplm/examples/fine_tuning/run_websrc/run.py", "transformers"),
    Program(
        "microsoft/unilm",
        "layoutlm/deprecated/examples/seq_labeling/run_seq_labeling.py",
        "transformers",
    ),
    Program("NVIDIA/tacotron2", "train.py", "tacotron"),
    Program("NVIDIA/mellotron", "train.py", "tacotron"),
    Program("NVIDIA/apex", "examples/dcgan/main_amp.py", "dcgan"),
    Program(
        "KaihuaTang/Scene-Graph-Benchmark.pytorch", "tools/detector_pretrain_net.py", "detection"
    ),
    Program("KaihuaTang/Scene-Graph-Benchmark.pytorch", "tools/relation_train_net.py", "detection"),
    Program("hysts/pytorch_image_classification", "train.py", "classification"),
)


@dataclass(frozen=True)
class Result:
    """What became of one program."""

    program: Program
    commit: str
    level: str
    migrated: bool
    findings: int
    ran: str

    def row(self) -> tuple[str, ...]:
        """Its line in the table."""
        done = "yes" if self.migrated else "no"
        found = str(self.findings) if self.migrated else "-"
        return (
            self.program.repository,
            self.commit,
            self.program.path,
            self.level,
            done,
            found,
            self.ran,
        )


def measure(place: Checkout, program: Program) -> Result:
    """Migrate, lint and run one program of a checkout."""
    path = place.folder / program.path
    text = path.read_text(encoding="utf-8")
    outcome = migrate_text(text, str(path), Settings())
    levels = sorted({one or "chosen at run time" for one in _LEVEL.findall(text)}) or ["O1"]
    level = ", ".join(levels)
    if outcome.output is None:
        reasons = "; ".join(f"{loop.reason}" for loop in outcome.loops if loop.reason)
        return Result(program, place.commit, level, False, 0, reasons)
    findings = lint(outcome.output, str(path), Settings()).findings
    return Result(
        program, place.commit, level, True, len(findings), ran(program, path, outcome.output)
    )


def ran(program: Program, path: Path, text: str) -> str:
    """How many steps the migrated program made in a process of its own, or how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "program.py")
        copy.write_text(text, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "tests.bench.apex_runs",
            program.kind,
            str(copy),
            str(path.parent),
            str(STEPS),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode == 0 and last.startswith("{"):
        facts = json.loads(last)
        return f"{facts['steps']}, last loss {facts['loss']:.3g}"
    return (done.stderr.strip().rpartition("\n")[2] or "nothing")[:90]


def results(places: list[Checkout], word: str) -> Iterator[Result]:
    """The programs of the checkouts, in the order of the list."""
    by_name = {place.name.lower(): place for place in places}
    for program in PROGRAMS:
        place = by_name.get(program.repository.lower())
        if place is not None and word in program.path:
            yield measure(place, program)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("places", nargs="+", metavar="NAME@COMMIT=FOLDER")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="Programs with this in their path."
    )
    given = parser.parse_args()
    rows = [
        result.row() for result in results([checkout(place) for place in given.places], given.only)
    ]
    print("\n".join(table(HEADER, rows)))


if __name__ == "__main__":
    main()
