"""Whole runs of the program, seed by seed, for the number of `--metric`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from amp_migrate.runtime.check import Check
from amp_migrate.runtime.endings import how
from amp_migrate.runtime.metric import equivalent, names, printed, value
from amp_migrate.runtime.report import Options, Report
from amp_migrate.runtime.trace import Trace


class _Untold(Exception):
    """A run that does not tell the number, and why."""


def compare_metric(
    report: Report,
    run: Callable[..., Trace],
    tensors: Callable[[str], Path],
    name: str,
    ways: dict[str, Any],
) -> None:
    """Add the check to `report`. A program that seeds itself is given seeds of its own."""
    metric, margin = report.options.metric, report.options.metric_margin
    label = f"{name}: metric {metric}"
    found: dict[str, list[float]] = {"original": [], name: []}
    both: dict[str, dict[str, Any]] = {"original": {}, name: ways}
    try:
        for count in range(report.options.metric_seeds):
            for way, changes in both.items():
                told = f"{way} for {name}, seed {count}"
                seeded = {**_seeded(report, count), **changes}
                trace = run(told, steps=0, metric=metric, **seeded)
                output = tensors(told).parent / "output.txt"
                found[way].append(_number(report.options, trace, output, way))
    except _Untold as error:
        report.checks.append(Check(label, "fail", None, None, str(error)))
        return
    check = equivalent(label, found["original"], found[name], margin)
    report.checks.append(check)


def _seeded(report: Report, count: int) -> dict[str, Any]:
    seeds = tuple(tuple(seed + count for seed in own) for own in report.seeds())
    return {"seed": report.options.seed + count, "seeds": seeds}


def _number(options: Options, trace: Trace, output: Path, way: str) -> float:
    """What the run `way` says of the metric."""
    if trace.status != "finished":
        raise _Untold(f"the {way} run {how(trace)}")
    assert options.metric is not None
    text = output.read_text(errors="replace")
    said = printed(text, options.metric) or trace.scalars
    known = value(said, options.epochs)
    if known is None:
        raise _Untold(f"the {way} run does not tell it{_instead(text, said)}")
    return known


def _instead(text: str, said: Sequence[float]) -> str:
    """What the run tells."""
    if said:
        return f" so often, but {len(said)} times"
    found = names(text)
    return f"; it prints {', '.join(found[:8])}" if found else ""
