"""Verdicts on a GPU: programs that are right pass, programs that are wrong fail by their check.

The verdict programs of tests/runtime, and every program of fixtures/ that is migrated, several at a
time: nothing is timed here. The order is shuffled, so that a budget that ends leaves a sample.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text
from amp_migrate.runtime.report import Options, Program, Report
from amp_migrate.runtime.supervise import Limits, Supervisor
from amp_migrate.runtime.verify import Verifier
from tests.gpu.arguments import WRONG, Budget, budget
from tests.harness.cases import Case, migrated_cases, read_source
from tests.harness.child import STAND_INS
from tests.runtime.verdicts.run import CASES, fault, quiet, verdict

STEPS = 10
_TOGETHER = 6
HALF_DONE = "half-done"
_PLANNING = threading.Lock()
"""The planner's memory is that of one thread."""
Verdict = Callable[[Supervisor, Path], str]
"""What is wrong with the verdict on a program; nothing where it is right."""


def main() -> int:
    """Print the verdicts that are not right; WRONG where there is one."""
    given = budget("Verdicts on a GPU.")
    wrong, done, asked = 0, 0, dict(_chosen(given))
    for name, said in faults(asked, given):
        done += 1
        if said:
            wrong += 1
            print(f"- {name}: {said}", flush=True)
    out_of_time = f", {len(asked) - done} not tried for want of time" * (done < len(asked))
    print(f"\n{done} of {len(asked)} programs tried, {wrong} wrong verdicts{out_of_time}.")
    return WRONG if wrong else 0


def _chosen(given: Budget) -> Iterator[tuple[str, Verdict]]:
    named = [(f"{name} (verdicts)", _case(name, given.device)) for name in CASES]
    named += [
        (f"{case.name} (fixtures)", _fixture(case, given.device))
        for case in migrated_cases()
        if case.migrates
        and case.settings.dtype in ("float16", "bfloat16")
        and case.level != HALF_DONE  # where the original is wrong, its run is no measure
        and not _needs_stand_ins(case)
    ]
    random.Random(0).shuffle(named)
    yield from named[:2] if given.tiny else named


def _needs_stand_ins(case: Case) -> bool:
    """Whether the original imports a package that nobody has."""
    first = {
        word.partition(".")[0]
        for line in read_source(case.before).splitlines()
        if line.split()[:1] in (["import"], ["from"])
        for word in line.split()[1:2]
    }
    return not first.isdisjoint(path.stem for path in STAND_INS.iterdir())


def faults(asked: dict[str, Verdict], given: Budget) -> Iterator[tuple[str, str]]:
    """Each program with what is wrong, as they are done, until the time is over."""
    together = 1 if given.device == "cpu" else min(_TOGETHER, os.cpu_count() or 1)
    own = threading.local()
    supervisors: list[Supervisor] = []

    def one(question: Verdict) -> str | None:
        if given.left < 10:
            return None
        if not hasattr(own, "supervisor"):
            own.supervisor = Supervisor(Limits(timeout=120), 0, given.device, quiet)
            supervisors.append(own.supervisor.__enter__())
        with tempfile.TemporaryDirectory() as folder:
            return question(own.supervisor, Path(folder))

    try:
        with ThreadPoolExecutor(together) as pool:
            waiting = {pool.submit(one, question): name for name, question in asked.items()}
            for future in as_completed(waiting):
                error = future.exception()
                said = f"{type(error).__name__}: {error}" if error else future.result()
                if said is not None:
                    yield waiting[future], said
    finally:
        for supervisor in supervisors:
            supervisor.__exit__(None, None, None)


def _case(name: str, device: str) -> Verdict:
    def asked(supervisor: Supervisor, folder: Path) -> str:
        return fault(CASES[name], verdict(CASES[name], supervisor, folder, 0, device))

    return asked


def _fixture(case: Case, device: str) -> Verdict:
    def asked(supervisor: Supervisor, folder: Path) -> str:
        return _failures(verified(case, supervisor, folder, device))

    return asked


def verified(case: Case, supervisor: Supervisor, folder: Path, device: str) -> Report:
    """A program of fixtures/ against what the migrator makes of it."""
    script = folder / case.before.name
    shutil.copytree(case.before.parent, folder, dirs_exist_ok=True)
    text = read_source(case.before)
    with _PLANNING:
        output = migrate_text(text, case.before.name, case.settings).output
    rewrites = {_dtype(case.settings): {str(script.resolve()): output or text}}
    program = Program(str(script), (), False, rewrites, folder)
    options = Options(device=device, steps=STEPS, diagnose=False)
    return Verifier(program, options, supervisor).run()


def _dtype(settings: Settings) -> str:
    return "bfloat16" if settings.dtype == "bfloat16" else "float16"


def _failures(report: Report) -> str:
    failed = [check for check in report.checks if check.verdict == "fail"]
    return "; ".join(f"{check.name}: {check.message} [{check.measured}]" for check in failed)


if __name__ == "__main__":
    sys.exit(main())
