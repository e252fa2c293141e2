"""Programs that were written against the planner: each breaks something that a reader of its code
would find it takes for granted. They stand in `attacks/*.md`, a heading each; what is expected of
one is a line below its heading.

`python -m tests.generated.attacking [WORD...]` runs those whose names hold a word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.generated import running
from tests.generated.axes import AXES
from tests.generated.campaign import Judged, guarded, report
from tests.generated.judging import Verdict
from tests.generated.programs import Program

FOLDER = Path(__file__).parent / "attacks"
PRELUDE = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(7)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self, out=3):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.fc2 = nn.Linear(8, out)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def batches():
    return [(torch.randn(8, 6), torch.randn(8, 3)) for _ in range(4)]


"""
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_NAMED = re.compile(r"# file: (\S+)\n")


@dataclass(frozen=True)
class Attack:
    """A program, and what must become of it."""

    name: str
    expected: str
    """What it may end as beside a migration that is right: `refused REASON`, `unchanged`; several
    with `or`. Without it, it has to be migrated.
    """
    program: Program

    def judged(self) -> Judged:
        """The program and its verdict."""
        return Judged(self.name, self.program, guarded(self.program))

    def meets(self, verdict: Verdict) -> bool:
        """Whether the outcome is one of those that are expected."""
        if verdict.faults:
            return False
        return outcome(verdict) in ("migrated", *self.expected.split(" or "))


def outcome(verdict: Verdict) -> str:
    """The status, and for a refusal its reason."""
    if verdict.status != "refused":
        return verdict.status
    return f"refused {verdict.reasons[0].partition(':')[0]}"


def attacks() -> Iterator[Attack]:
    """All of them."""
    for path in sorted(FOLDER.glob("*.md")):
        for part in re.split(r"(?m)^## ", path.read_text(encoding="utf-8"))[1:]:
            yield _attack(part)


def _attack(part: str) -> Attack:
    name, _, rest = part.partition("\n")
    expected = rest.partition("```")[0].strip()
    return Attack(name.strip(), expected, plain(files_of(rest)))


def files_of(text: str) -> dict[str, str]:
    """The files whose code stands in a piece of Markdown; the main one gets the prelude."""
    files = {}
    for block in _BLOCK.findall(text):
        named = _NAMED.match(block)
        files[named[1] if named else "main.py"] = (
            block[named.end() :] if named else f"{PRELUDE}{block}"
        )
    return files


def plain(files: dict[str, str]) -> Program:
    """A program of these files, with the choices that a verdict asks about."""
    return Program({axis: choices[0] for axis, choices in AXES.items()}, files, "main.py")


def main(words: list[str]) -> int:
    """Tell about each attack that does not end as it should."""
    running.prepare()
    wrong = 0
    for attack in attacks():
        if words and not any(word in attack.name for word in words):
            continue
        found = attack.judged()
        bad = not attack.meets(found.verdict)
        wrong += bad
        told = [f"{f.check}: {f.detail[-200:]}" for f in found.verdict.faults]
        told += [f"ugly {f.check}: {f.detail[:100]}" for f in found.verdict.ugly]
        told += [f"({reason[:150]})" for reason in found.verdict.reasons]
        print("BAD " if bad else "ok  ", attack.name, outcome(found.verdict), *told, flush=True)
        if words and bad:
            print(report(found))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
