"""The simulated GPU against the real one: dtypes, kernels and refusals of every operator sample."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.gpu.arguments import WRONG, Budget, budget

EVERY = 80
"""In a rehearsal, one operator of so many."""
END = 15
"""Seconds for the start of a process: what it has answered by then is compared."""
_SCRIPT = Path(__file__).parents[1] / "runtime" / "on_simulated_gpu.py"
_LIKE = {"facts", "refused", "scaler", "BCELoss"}
"""What is asked of one of the two alone, or is worded by each in its own way."""


def main() -> int:
    """Print what differs; WRONG where anything does."""
    given = budget("The simulated GPU against the real one.")
    differences = 0
    for title, ask in (("expressions", _asked), ("operator samples", _answers)):
        with ThreadPoolExecutor(2) as both:
            one, other = both.map(ask, ("cpu", given.device), (given, given))
        found = list(different(one, other))
        differences += len(found)
        print(f"{len(found)} differences in {len(one.keys() & other.keys())} {title}.\n")
        if found:
            print("\n".join(["| | simulated | real |", "|---|---|---|", *found, ""]), flush=True)
    return WRONG if differences else 0


def different(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """A row for each that both answer, differently."""
    for name in sorted(one.keys() & other.keys()):
        if one[name] != other[name]:
            yield f"| {name} | {one[name]} | {other[name]} |"


def _asked(place: str, given: Budget) -> dict[str, Any]:
    found = _json([str(_SCRIPT), place], given)
    return {name: value for name, value in found.items() if name not in _LIKE}


def _answers(place: str, given: Budget) -> dict[str, Any]:
    every = EVERY if given.tiny else 1
    seconds = max(given.left - END, 1)
    shares = 4 if (os.cpu_count() or 1) >= 8 else 1

    def share(number: int) -> dict[str, Any]:
        words = [place, str(every), f"{seconds:.0f}", f"{number}/{shares}"]
        return _json(["-m", "tests.gpu.operator_answers", *words], given)

    with ThreadPoolExecutor(shares) as pool:  # they take minutes of one core
        return {
            name: said for found in pool.map(share, range(shares)) for name, said in found.items()
        }


def _json(words: list[str], given: Budget) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *words], env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
        text=True, check=True, timeout=max(given.left, 1),
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
