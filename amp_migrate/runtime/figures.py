"""What the page shows as charts; none without numbers, and none of what could not be measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from amp_migrate.runtime.charts import Band, Line, Marks, Row, bars, lines
from amp_migrate.runtime.compare import curves
from amp_migrate.runtime.loss_checks import bands
from amp_migrate.runtime.report import Report

_MOST_LOSSES = 6
_MOST_ROWS = 30


@dataclass(frozen=True)
class Figure:
    """`chart` is SVG with its legend; `caption` says how to read it."""

    name: str
    title: str
    caption: str
    chart: str


def figures(report: Report) -> Iterator[Figure]:
    """All for which there are numbers, in the order of the page."""
    if "original" in report.runs:
        yield from (figure for figure in _all(report) if figure.chart)


def _all(report: Report) -> Iterator[Figure]:
    for name in report.runs.amp():
        yield from _losses(report, name)
        if report.runs[name].dtype == "float16":
            yield _scale(report, name)
        yield _underflow(report, name)
    yield from _bars(report)


def _losses(report: Report, name: str) -> Iterator[Figure]:
    """Of programs with many backwards, those that are furthest from where they should be."""
    original, amp = curves(report.runs["original"]), curves(report.runs[name])
    found = sorted(
        bands(report.runs, name, report.options.limits),
        key=lambda one: -one.excess,
    )
    for number, band in enumerate(found[:_MOST_LOSSES]):
        dtype, place = report.runs[name].dtype, _short(band.site)
        drawn = [
            Line(original[band.site].values, "original, float32", "original"),
            Line(amp[band.site].values, f"rewritten, {dtype}", "amp"),
            Line(band.curve, "rewritten, running mean", "amp dotted"),
        ]
        chart = lines(
            drawn,
            "backward",
            "loss",
            Band(band.low, band.high, "allowed for the mean"),
        )
        more = f" The {_MOST_LOSSES} worst of {len(found)} are shown." * (
            len(found) > _MOST_LOSSES
        )
        caption = f"Loss at each backward of {place}. The dotted mean has to stay inside the band."
        yield Figure(
            f"loss-{name}-{number}",
            f"Loss, {dtype} ({place})",
            caption + more,
            chart,
        )


def _scale(report: Report, name: str) -> Figure:
    trace = report.runs[name]
    skipped = [
        (place, scale)
        for place, (taken, scale) in enumerate(
            zip(trace.taken, trace.scales, strict=False), 1
        )
        if not taken
    ]
    drawn = [Line(trace.scales, "loss scale", "amp")]
    chart = lines(
        drawn,
        "step",
        "scale",
        marks=Marks(skipped, "skipped step"),
        powers=True,
    )
    caption = f"{len(skipped)} of {len(trace.taken)} steps were skipped."
    title = f"Loss scale and skipped steps, {trace.dtype}"
    return Figure(f"scale-{name}", title, caption, chart)


def _underflow(report: Report, name: str) -> Figure:
    lost = sorted(
        report.runs.underflow.get(name, []), key=lambda one: -one.lost_unscaled
    )
    rows = [
        Row(
            one.parameter,
            [
                (one.lost_unscaled, "bad", f"{one.lost_unscaled:.1%}"),
                (one.lost, "amp", f"{one.lost:.1%}"),
            ],
        )
        for one in lost[:_MOST_ROWS]
        if one.lost_unscaled or one.lost
    ]
    keys = [
        Line((), "in float16 without a scaler", "bad"),
        Line((), "in this run", "amp"),
    ]
    chart = (
        bars(rows, 1.0, "share of the gradient's values", keys) if rows else ""
    )
    caption = (
        "Share of each parameter's gradient, in the first step, that is rounded to zero. "
        f"The worst {_MOST_ROWS} are shown; those that lose nothing are not."
    )
    title = f"Gradients lost to zero, {report.runs[name].dtype}"
    return Figure(f"underflow-{name}", title, caption, chart)


def _bars(report: Report) -> Iterator[Figure]:
    """Times and memory, where a check has compared them."""
    shown = [
        name
        for name in ("original", "tf32", *report.runs.amp())
        if name in report.runs
    ]
    speeds = {
        name: report.runs[name].steps_per_second or math.nan for name in shown
    }
    if _compared(report, "speed"):
        times = {name: 1e3 / speed for name, speed in speeds.items()}
        yield Figure(
            "time", "Time per step", "Median.", _bar(report, times, "ms")
        )
    if _compared(report, "memory"):
        peaks = {
            name: report.runs[name].peak_memory_bytes / 2**20 for name in shown
        }
        yield Figure(
            "memory",
            "Peak memory",
            "Of all devices.",
            _bar(report, peaks, "MiB"),
        )


def _compared(report: Report, what: str) -> bool:
    return any(
        check.name.partition(": ")[2].startswith(what)
        and check.verdict != "skip"
        for check in report.checks
    )


def _bar(report: Report, values: dict[str, float], unit: str) -> str:
    rows = [
        Row(_label(report, name), [(value, _kind(name), f"{value:.3g}")])
        for name, value in values.items()
        if math.isfinite(value)
    ]
    return (
        bars(rows, max((row.bars[0][0] for row in rows), default=1.0), unit)
        if rows
        else ""
    )


def _label(report: Report, name: str) -> str:
    return {"original": "float32", "tf32": "TF32"}.get(name) or report.runs[
        name
    ].dtype


def _kind(name: str) -> str:
    return "original" if name in ("original", "tf32") else "amp"


def _short(site: str) -> str:
    """`train.py:12` of a path."""
    return site.replace("\\", "/").rpartition("/")[2]
