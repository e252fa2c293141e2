"""Whole runs of the program, seed by seed, for the number of `--metric`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from amp_migrate.runtime.check import Check
from amp_migrate.runtime.endings import how
from amp_migrate.runtime.metric import equivalent, printed, value
from amp_migrate.runtime.report import Report
from amp_migrate.runtime.trace import Trace


def compare_metric(
    report: Report,
    run: Callable[..., Trace],
    tensors: Callable[[str], Path],
    name: str,
    ways: dict[str, Any],
) -> None:
    """Add the check to `report`. A program that seeds itself is given seeds of its own."""
    options = report.options
    assert options.metric is not None
    label = f"{name}: metric {options.metric}"
    found: dict[str, list[float]] = {"original": [], name: []}
    for count in range(options.metric_seeds):
        seeds = tuple(seed + count for seed in report.runs["original"].seeds)
        for way, changes in (("original", {}), (name, ways)):
            told = f"{way} for {name}, seed {count}"
            trace = run(
                told,
                steps=0,
                metric=options.metric,
                seed=options.seed + count,
                seeds=seeds,
                **changes,
            )
            said = (tensors(told).parent / "output.txt").read_text(
                errors="replace"
            )
            values = printed(said, options.metric) or trace.scalars
            known = value(values, options.epochs)
            if trace.status != "finished" or known is None:
                why = (
                    how(trace)
                    if trace.status != "finished"
                    else "does not tell it"
                )
                report.checks.append(
                    Check(label, "fail", None, None, f"the {way} run {why}")
                )
                return
            found[way].append(known)
    margin = options.metric_margin
    report.checks.append(
        equivalent(label, found["original"], found[name], margin)
    )
