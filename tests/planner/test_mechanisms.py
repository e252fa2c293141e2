"""Little projects in `mechanisms/*.diff`: what the planner decides about each loop, and the text it
makes of each file.

A case begins with `= name`; `? file scope status reason` is the outcome of a loop, `@ file` begins
a file. The lines of a file have a gutter of one character: `-` and `+` are what the migration takes
out and puts in, so that a case without them is one that must stay as it is.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.whole_program import rewrite_program

HERE = Path(__file__).parent / "mechanisms"


@dataclass(frozen=True)
class Case:
    """One little project."""

    name: str
    loops: list[tuple[str, ...]] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=dict)

    def text(self, name: str, without: str) -> str:
        """A file with the lines of one gutter left out."""
        return "".join(f"{line[1:]}\n" for line in self.files[name] if line[:1] != without)


def cases() -> list[Case]:
    """All cases of all files."""
    found: list[Case] = []
    for path in sorted(HERE.glob("*.diff")):
        lines: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("= "):
                found.append(Case(f"{path.stem}: {line[2:]}"))
            elif line.startswith("? "):
                found[-1].loops.append(tuple(line[2:].split()))
            elif line.startswith("@ "):
                lines = found[-1].files.setdefault(line[2:], [])
            else:
                lines.append(line)
    return found


CASES = cases()


def test_there_are_cases_that_stay_as_they_are() -> None:
    changed = [case for case in CASES if any(loop[2] == "migrated" for loop in case.loops)]
    assert 0 < len(changed) < len(CASES)
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_mechanism(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [tmp_path / name for name in case.files]
    for path, name in zip(paths, case.files, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(case.text(name, "+"), encoding="utf-8")
    results = rewrite_program(paths, Settings())
    loops = [
        tuple(filter(None, (name, loop.scope, loop.status, loop.reason)))
        for path, name in zip(paths, case.files, strict=True)
        for loop in results[path].outcome.loops
    ]
    assert loops == case.loops
    for path, name in zip(paths, case.files, strict=True):
        for loop in results[path].outcome.loops:
            check_claim(case, name, loop.message or "")
    for path, name in zip(paths, case.files, strict=True):
        result = results[path]
        migrated = result.outcome.status == "migrated"
        new = result.after.decode() if migrated and result.after else case.text(name, "+")
        assert new == case.text(name, "-"), name


def check_claim(case: Case, name: str, message: str) -> None:
    """What a reason quotes stands in the program, and the lines that it names are lines of it: of
    the loop's own file, where no other one is named.
    """
    texts = [case.text(name, "+") for name in case.files]
    written = " ".join(ast.unparse(ast.parse(text)) for text in texts)
    assert "``" not in message
    for quoted in re.findall(r"`([^`]+)`", message):
        said = " ".join(quoted.removesuffix(".float()").split())  # a cast is an addition
        known = quoted in TOLD or quoted in written or said in written
        known = known or all(
            re.search(rf"(def|class) {re.escape(p)}\b", written) for p in quoted.split(".")
        )
        assert known or any(quoted == _qualname(part) for part in case.loops), quoted
    named = re.findall(r"([\w./-]+\.py):(\d+)", message)
    named += [(file or name, n) for n, file in re.findall(r"line (\d+)(?: of (\S+\.py))?", message)]
    for file, number in named:
        lines = next(case.text(own, "+") for own in case.files if own.endswith(Path(file).name))
        assert lines.splitlines()[int(number) - 1].strip(), (file, number)


def _qualname(loop: tuple[str, ...]) -> str:
    return loop[1]


TOLD = {
    "No inf checks were recorded for this optimizer",
    "amp-migrate lint",
    "deepspeed.ops.adam.DeepSpeedCPUAdam",
    "scaler",
    "self.scaler",
    "torch.autocast(..., enabled=False)",
    "unscale_",
}
"""What reasons quote beside the program: commands, full names of what it imports, additions."""
