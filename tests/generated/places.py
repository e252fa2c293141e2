"""Operations that half precision breaks, in every place from which they may be run.

The places stand in `places.md`, a heading each. `python -m tests.generated.places [WORD...]` runs
those whose names hold a word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.generated import running
from tests.generated.attacking import Attack, files_of, outcome, plain

PLACES = Path(__file__).with_suffix(".md")
PUT = """\
def put(o):
    bank = torch.zeros(8, 3, device=o.device)
    bank[torch.arange(8, device=o.device)] = o
    return bank


"""
HAZARDS = {
    "logarithm": ("", "torch.log(1 - torch.sigmoid(o + 10))"),
    "epsilon": ("", "torch.log(torch.relu(o - 100) + 1e-8)"),
    "inverse": ("", "torch.linalg.inv(o.t() @ o + torch.eye(3, device=o.device))"),
    "probabilities": ("", "F.binary_cross_entropy(torch.sigmoid(o), torch.ones_like(o))"),
    "write": (PUT, "put(o)"),
    "mask": ("", "o.masked_fill(o > 0, -1e9).softmax(1)"),
    "moments": (
        "",
        "torch.sqrt(((o + 30) * (o + 30)).mean(0) - (o + 30).mean(0) * (o + 30).mean(0))",
    ),
}
"""What each needs, and the operation on `o`, an output in half precision."""


def programs() -> Iterator[Attack]:
    """Each operation in each place; refusing is right, too."""
    text = PLACES.read_text(encoding="utf-8")
    for part in re.split(r"(?m)^## ", text)[1:]:
        place, _, rest = part.partition("\n")
        for name, (helpers, operation) in HAZARDS.items():
            files = {
                file: code.replace("HELPERS\n", helpers).replace("HAZARD", operation)
                for file, code in files_of(rest).items()
            }
            yield Attack(f"{place}-{name}", "refused", plain(files))


def meets(program: Attack) -> tuple[bool, str]:
    """Whether a program ends as it may, and what is told of it."""
    found = program.judged().verdict
    told = [outcome(found), *found.reasons, *(f"{one.check}: {one.detail}" for one in found.faults)]
    return found.status in ("migrated", "refused") and not found.faults, "\n".join(told)


def main(words: list[str]) -> int:
    """Tell about each program that does not end as it may."""
    running.prepare()
    tried = wrong = 0
    for program in programs():
        if not words or any(word in program.name for word in words):
            right, told = meets(program)
            tried, wrong = tried + 1, wrong + (not right)
            if words or not right:
                print("ok  " if right else "BAD ", program.name, told[:300], flush=True)
    print(f"{tried} programs, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
