"""`python -m tests.generated --count 10000 --seed N`: a table of what came out wrong or refused,
and the smallest program of each class in a folder.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path

from tests.generated.axes import AXES
from tests.generated.campaign import (
    Counts,
    Judged,
    campaign,
    judged,
    minimised,
    refusal_minimised,
    report,
    write,
)
from tests.generated.running import prepare


def main() -> int:
    """Run the campaign; 1 where a program came out wrong."""
    options = _options()
    prepare()
    if options.show:
        print(report(judged(options.show)))
        return 0
    counts, started = Counts(), time.monotonic()
    kept: dict[str, list[Judged]] = {}
    seeds = _each() if options.each else [f"{options.seed}-{k}" for k in range(options.count)]
    for one in campaign(seeds, options.workers):
        counts.add(one)
        _keep(kept, one, options.ugly)
        _progress(counts, len(seeds))
        if options.each or one.verdict.faults:
            _tell(one)
        if time.monotonic() - started > options.seconds:
            break
    print(_table(counts, time.monotonic() - started))
    _write_out(kept, counts, Path(options.output), options.examples)
    return int(counts.wrong > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.generated")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--each", action="store_true", help="one program for each single choice")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--output", default="generated-failures")
    parser.add_argument("--examples", type=int, default=3, help="programs written per class")
    parser.add_argument("--ugly", action="store_true", help="write what is only ugly, too")
    parser.add_argument("--show", metavar="SEED", help="print one program and its verdict")
    return parser.parse_args()


def _each() -> list[str]:
    return [f"{axis}={choice}" for axis, choices in AXES.items() for choice in choices]


def _keep(kept: dict[str, list[Judged]], one: Judged, ugly: bool) -> None:
    found = {fault.check for fault in one.verdict.faults}
    found |= {fault.check for fault in one.verdict.ugly} if ugly else set()
    for check in found:
        kept.setdefault(check, []).append(one)
    if one.verdict.status == "broken":
        kept.setdefault("broken", []).append(one)


def _progress(counts: Counts, total: int) -> None:
    if sys.stderr.isatty() or counts.programs % 500 == 0:
        print(f"\r{counts.programs}/{total}, wrong: {counts.wrong}", end="", file=sys.stderr)


def _tell(one: Judged) -> None:
    """One line for a program with something to tell."""
    found = [f"{fault.check}: {fault.detail[:160]}" for fault in one.verdict.faults]
    found += [f"ugly {fault.check}: {fault.detail[:90]}" for fault in one.verdict.ugly]
    if found or one.verdict.status != "migrated":
        reasons = [reason[:110] for reason in one.verdict.reasons]
        print(one.seed, one.verdict.status, *reasons, *found, flush=True)


def _table(counts: Counts, seconds: float) -> str:
    rate = counts.programs / seconds
    lines = [f"\n{counts.programs} programs in {seconds:.0f} s, {rate:.1f} per second"]
    lines += [f"wrong: {counts.wrong}", _rows("status", counts.statuses, counts)]
    lines += [_rows("wrong by check", counts.faults, counts), _rows("ugly", counts.ugly, counts)]
    lines += [_rows("not migrated, by reason", counts.reasons, counts)]
    lines += [_rows("plainly migratable, but not migrated", counts.plain_refusals, counts)]
    lines += [_shares("features of wrong programs", counts.wrong_by_feature, counts)]
    lines += [_shares("features of refused programs", counts.refused_by_feature, counts)]
    return "\n".join(lines)


def _rows(title: str, counter: Counter[str], counts: Counts) -> str:
    rows = [
        f"  {number:6}  {name}  (seed {counts.examples[name]})"
        if name in counts.examples
        else f"  {number:6}  {name}"
        for name, number in counter.most_common()
    ]
    return "\n".join([f"\n{title}", *(rows or ["  none"])])


def _shares(title: str, counter: Counter[str], counts: Counts) -> str:
    """Features by the share of their programs."""
    shares = {name: number / counts.seen_by_feature[name] for name, number in counter.items()}
    best = sorted(shares, key=lambda name: -shares[name])[:25]
    rows = [f"  {shares[n]:6.0%}  {n} ({counter[n]} of {counts.seen_by_feature[n]})" for n in best]
    return "\n".join([f"\n{title}", *(rows or ["  none"])])


def _write_out(kept: dict[str, list[Judged]], counts: Counts, folder: Path, examples: int) -> None:
    for check, found in kept.items():
        name = re.sub(r"\W+", "-", check)
        for one in found[:examples]:
            small = one
            if check != "broken":
                small = minimised(one.program.spec, one.seed, check)
            print("written:", write(small, folder, f"{name}/{one.seed}"))
    for label in counts.plain_refusals:
        seed, reason = counts.examples[label], label.rpartition(": ")[2]
        small = refusal_minimised(judged(seed).program.spec, seed, reason)
        print("written:", write(small, folder, f"plain-refused/{reason}-{seed}"))


if __name__ == "__main__":
    sys.exit(main())
