"""What becomes of the training loops of whole repositories.

`python -m tests.bench.repositories FOLDER...` migrates checkouts without writing to them and prints
a Markdown table. A folder is given as it is or as `NAME@COMMIT=FOLDER`. `--device cuda` is handed
on, for repositories without device code; `--refused` lists every refused loop with its message, to
be read beside the source.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.checkouts import Checkout, checkout, counted, report, table

NOT_FOR_A_SCALER = {
    *(
        "already-half",
        "distributed-autograd",
        "framework-loop",
        "not-a-torch-optimizer",
        "optimizer-wrapper",
        "sharded",
        "step-with-closure",
        "syntax",
        "two-pass-optimizer",
    ),
}
"""Reasons that hold for a person as well: torch.amp.GradScaler cannot drive such a loop, or no
Python 3 reads it.
"""
HEADER = ("Repository", "Commit", "Loops", "Migrated", "Refused", "Skipped", "Files that failed")


@dataclass(frozen=True)
class Result:
    """A repository and the files of its report."""

    place: Checkout
    files: Sequence[dict[str, Any]]

    def loops(self, status: str) -> list[dict[str, Any]]:
        """The loops that ended as `status`."""
        return [loop for file in self.files for loop in file["loops"] if loop["status"] == status]

    def reasons(self, status: str) -> list[str]:
        """Their reasons."""
        return [loop["reason"] for loop in self.loops(status)]

    @property
    def failed(self) -> int:
        """Files that could not be read as Python."""
        return sum(file["status"] == "failed" for file in self.files)


def main(args: Sequence[str] | None = None) -> None:
    """Print the table and what it comes to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("places", nargs="+", type=checkout, metavar="[NAME@COMMIT=]FOLDER")
    parser.add_argument("--device", metavar="TYPE", help="handed on")
    parser.add_argument("--refused", action="store_true", help="list the refused loops")
    ours = parser.parse_args(args)
    results = [migrated(place, ours.device) for place in ours.places]
    print(*table(HEADER, map(row, results)), "", *share(results), sep="\n")
    if ours.refused:
        print("", *refused(results), sep="\n")


def migrated(place: Checkout, device: str | None = None) -> Result:
    """Migrate the checkout in memory."""
    options = ["--check", "--output-format", "json", *(["--device", device] if device else [])]
    return Result(place, report("migrate", *options, str(place.folder))["files"])


def row(result: Result) -> tuple[object, ...]:
    """One line of the table."""
    done, refusals, skips = (
        result.reasons(status) for status in ("migrated", "refused", "skipped")
    )
    total = len(done) + len(refusals) + len(skips)
    place = result.place
    return (
        place.name,
        f"`{place.commit}`",
        total,
        len(done),
        counted(refusals),
        counted(skips),
        result.failed,
    )


def share(results: Sequence[Result]) -> Iterator[str]:
    """How many plain loops were migrated: of all, and of those that a GradScaler can drive."""
    done = sum(len(result.loops("migrated")) for result in results)
    reasons = [reason for result in results for reason in result.reasons("refused")]
    yield _share(done, reasons, "plain loops")
    drivable = [reason for reason in reasons if reason not in NOT_FOR_A_SCALER]
    yield _share(done, drivable, "that torch.amp.GradScaler can drive")


def _share(done: int, refusals: Sequence[str], which: str) -> str:
    total = done + len(refusals)
    return f"{done} of {total} {which}: {done / max(total, 1):.0%}"


def refused(results: Sequence[Result]) -> Iterator[str]:
    """Position, reason and message of every refused loop, and of every file that failed."""
    for result in results:
        for file in result.files:
            if file["status"] == "failed":
                yield file["error"]
            for loop in file["loops"]:
                if loop["status"] == "refused":
                    yield f"{file['path']}:{loop['line']}: {loop['reason']}: {loop['message']}"


if __name__ == "__main__":
    main()
