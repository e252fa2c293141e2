"""Runs the cases:
`python -m tests.runtime.verdicts.run [--device cuda] [--seeds 3] [--first-seed 0] [NAME...]`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.runtime.report import Options, Program, Report
from amp_migrate.runtime.supervise import Limits, Supervisor
from amp_migrate.runtime.verify import Verifier
from tests.runtime.verdicts import half, meaning, places, protocol, whole
from tests.runtime.verdicts.cases import Case

STEPS = 10
CASES: dict[str, Case] = {
    case.name: case for part in (protocol, places, half, meaning, whole) for case in part.CASES
}


def quiet(job: object, state: object) -> None:
    """Watch nothing."""


def verdict(case: Case, supervisor: Supervisor, folder: Path, seed: int, device: str) -> Report:
    """Verify one case."""
    script = folder / "train.py"
    script.write_text(case.before, encoding="utf-8")
    rewrites = {case.dtype: {str(script.resolve()): case.after}}
    program = Program(str(script), (), False, rewrites, folder)
    options = Options(device=device, steps=STEPS, seed=seed, diagnose=False)
    return Verifier(program, options, supervisor).run()


def fault(case: Case, report: Report) -> str:
    """What is wrong with the verdict; empty where it is right."""
    failed = [check for check in report.checks if check.verdict == "fail"]
    told = "; ".join(f"{check.name}: {check.message} [{check.measured}]" for check in failed)
    if any(check.name.endswith(("comparison", "measured")) for check in failed):
        return f"no verdict: {told}"
    if not case.fails:
        return f"fails though it is right: {told}" if failed else ""
    for check in failed:
        run, _, name = check.name.partition(": ")
        if (name in case.fails or run in case.fails) and case.words in check.message:
            return ""
    return f"not found by {', '.join(case.fails)}: {told or 'passes'}"


def faults(names: list[str], seeds: range, device: str) -> Iterator[tuple[str, int, str]]:
    """Each case and seed with its fault."""
    for seed in seeds:
        with Supervisor(Limits(timeout=300), seed, device, quiet) as supervisor:
            for name in names:
                with tempfile.TemporaryDirectory() as folder:
                    report = verdict(CASES[name], supervisor, Path(folder), seed, device)
                    yield name, seed, fault(CASES[name], report)


def main() -> int:
    """Print a line for each; 1 where a verdict is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    wrong, began = 0, time.monotonic()
    names = [name for name in CASES if not options.names or name in options.names]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for name, seed, found in faults(names, seeds, options.device):
        wrong += bool(found)
        print(f"{'WRONG' if found else 'right'}  {seed}  {name}  {found}", flush=True)
    seconds = time.monotonic() - began
    print(f"{len(names)} programs, {options.seeds} seeds, {wrong} wrong verdicts, {seconds:.0f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
