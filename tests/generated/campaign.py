"""Many programs: judged on all cores, counted, and those that came out wrong made small."""

from __future__ import annotations

import difflib
import multiprocessing
import os
import signal
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.generated import running
from tests.generated.axes import AXES, Spec, features, plainly_migratable
from tests.generated.judging import Fault, Verdict, judge
from tests.generated.open_findings import without_open
from tests.generated.programs import Program, consistent, program, render

SECONDS = 120
"""The longest that one program may take."""


@dataclass(frozen=True)
class Judged:
    """A program and its verdict."""

    seed: str
    program: Program
    verdict: Verdict


@dataclass
class Counts:
    """What a campaign saw."""

    programs: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    ugly: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    plain_refusals: Counter[str] = field(default_factory=Counter)
    wrong_by_feature: Counter[str] = field(default_factory=Counter)
    refused_by_feature: Counter[str] = field(default_factory=Counter)
    seen_by_feature: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """A seed for each thing counted."""
    wrong: int = 0

    def add(self, one: Judged) -> None:
        verdict, spec = one.verdict, one.program.spec
        self.programs += 1
        self.statuses[verdict.status] += 1
        self.seen_by_feature.update(features(spec))
        self.wrong += bool(verdict.faults)
        if verdict.faults:
            self.wrong_by_feature.update(features(spec))
        self._count(self.faults, {fault.check for fault in verdict.faults}, one)
        self._count(self.ugly, {f"ugly: {fault.check}" for fault in verdict.ugly}, one)
        if verdict.status in ("refused", "unchanged"):
            reason = verdict.reasons[0].partition(":")[0] if verdict.reasons else "silent"
            self.refused_by_feature.update(features(spec))
            self._count(self.reasons, {f"{verdict.status}: {reason}"}, one)
            if plainly_migratable(spec):
                self._count(self.plain_refusals, {f"plain, {verdict.status}: {reason}"}, one)

    def _count(self, counter: Counter[str], names: Iterable[str], one: Judged) -> None:
        for name in names:
            counter[name] += 1
            self.examples.setdefault(name, one.seed)


def judged(seed: str) -> Judged:
    """The program of a seed and its verdict; a crash of the migrator is a fault."""
    made = program(seed)
    return Judged(seed, made, guarded(made))


def _judged_but_known(seed: str) -> Judged:
    """The same, without the choices of open findings."""
    made = render(consistent(without_open(program(seed).spec)), seed)
    return Judged(seed, made, guarded(made))


def guarded(made: Program) -> Verdict:
    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {SECONDS} seconds")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        return judge(made)
    except Exception as error:
        return Verdict(
            "failed", (), (Fault(f"crash {type(error).__name__}", traceback.format_exc(limit=-4)),)
        )
    finally:
        signal.alarm(0)


def campaign(
    seeds: Iterable[str], workers: int | None = None, *, known: bool = False
) -> Iterator[Judged]:
    """The programs of all seeds, as they are done; with `known`, without open findings."""
    context = multiprocessing.get_context("fork")
    with context.Pool(workers or os.cpu_count() or 1, running.prepare) as pool:
        yield from pool.imap_unordered(_judged_but_known if known else judged, seeds, 2)


# -- the smallest program


def minimised(spec: Spec, seed: str, check: str) -> Judged:
    """The program with as many axes at their plain choice as still fail the check."""
    best = Judged(seed, render(spec, seed), Verdict("unknown"))
    for axis, choices in AXES.items():
        smaller = consistent({**best.program.spec, axis: choices[0]})
        if smaller == best.program.spec:
            continue
        made = render(smaller, seed)
        found = guarded(made)
        if any(fault.check == check for fault in (*found.faults, *found.ugly)):
            best = Judged(seed, made, found)
    return (
        best if best.verdict.status != "unknown" else replace(best, verdict=guarded(best.program))
    )


def refusal_minimised(spec: Spec, seed: str, reason: str) -> Judged:
    """The same for a refusal."""
    best = Judged(seed, render(spec, seed), Verdict("unknown"))
    for axis, choices in AXES.items():
        smaller = consistent({**best.program.spec, axis: choices[0]})
        if smaller == best.program.spec:
            continue
        made = render(smaller, seed)
        found = guarded(made)
        told = found.reasons[0].partition(":")[0] if found.reasons else "silent"
        if found.status in ("refused", "unchanged") and told == reason:
            best = Judged(seed, made, found)
    return (
        best if best.verdict.status != "unknown" else replace(best, verdict=guarded(best.program))
    )


def report(one: Judged) -> str:
    """A page on a program: its choices, what is wrong, the diff or the whole text."""
    lines = [
        f"# {one.seed}",
        "",
        f"features: {', '.join(features(one.program.spec)) or 'none'}",
        f"status: {one.verdict.status} {'; '.join(one.verdict.reasons)}",
        "",
    ]
    lines += [f"- **{fault.check}**: {fault.detail}" for fault in one.verdict.faults]
    lines += [f"- ugly, {fault.check}: {fault.detail}" for fault in one.verdict.ugly]
    for name, text in one.program.files.items():
        lines += ["", f"## {name}", "```python", text.replace("\r", "").rstrip("\n"), "```"]
        new = one.verdict.after.get(name, text)
        changed = difflib.unified_diff(text.splitlines(), new.splitlines(), lineterm="", n=2)
        if new != text:
            lines += ["```diff", *list(changed)[2:], "```"]
    return "\n".join(lines) + "\n"


def write(one: Judged, folder: Path, name: str) -> Path:
    """Write the page and the files of a program below `folder`."""
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    (target / "report.md").write_text(report(one), encoding="utf-8")
    for state, files in (("before", one.program.files), ("after", one.verdict.after)):
        for path, text in files.items():
            (target / state / path).parent.mkdir(parents=True, exist_ok=True)
            (target / state / path).write_bytes(text.encode())
    return target
