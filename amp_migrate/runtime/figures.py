"""The plots of the page, as plotly.js data: plain dicts, with names of colours, which differ in
light and dark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amp_migrate.runtime.checks import bands
from amp_migrate.runtime.compare import curves
from amp_migrate.runtime.report import Report


@dataclass(frozen=True)
class Figure:
    """`traces` and `layout` are what `Plotly.newPlot` takes; `caption` says how to read it."""

    name: str
    title: str
    caption: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]


def figures(report: Report) -> Iterator[Figure]:
    """All plots for which there are numbers, in the order of the page."""
    if "original" not in report.runs:
        return
    for name in report.runs.amp():
        yield from _losses(report, name)
        if report.runs[name].dtype == "float16":
            yield from _scale(report, name)
        yield from _underflow(report, name)
    yield from _bars(report)


def _losses(report: Report, name: str) -> Iterator[Figure]:
    original, amp = curves(report.runs["original"]), curves(report.runs[name])
    for number, band in enumerate(bands(report.runs, name, report.options.limits)):
        steps = list(range(1, len(band.low) + 1))
        place = _short(band.site)
        edges = {"x": steps, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        traces: list[dict[str, Any]] = [
            {**edges, "y": list(band.low), "showlegend": False},
            {
                **edges,
                "y": list(band.high),
                "fill": "tonexty",
                "fillcolor": "@band",
                "name": "allowed for the mean",
            },
            _line(original[band.site].values, "original, float32", "@original", dash="solid"),
            _line(
                amp[band.site].values, f"rewritten, {report.runs[name].dtype}", "@amp", dash="solid"
            ),
            _line(band.curve, "rewritten, running mean", "@amp", dash="dot"),
        ]
        caption = f"Loss at each backward of {place}. The dotted mean has to stay inside the band."
        yield Figure(
            f"loss-{name}-{number}",
            f"Loss, {report.runs[name].dtype} ({place})",
            caption,
            traces,
            _axes("backward", "loss"),
        )


def _line(values: Any, name: str, colour: str, dash: str) -> dict[str, Any]:
    steps = list(range(1, len(values) + 1))
    line = {"color": colour, "dash": dash, "width": 2}
    return {"x": steps, "y": list(values), "mode": "lines", "name": name, "line": line}


def _scale(report: Report, name: str) -> Iterator[Figure]:
    trace = report.runs[name]
    steps = list(range(1, len(trace.scales) + 1))
    skipped = [i for i, taken in enumerate(trace.taken) if not taken]
    scale = {
        "x": steps,
        "y": trace.scales,
        "mode": "lines",
        "name": "loss scale",
        "line": {"color": "@amp", "shape": "hv"},
    }
    marks = {
        "x": [i + 1 for i in skipped],
        "y": [trace.scales[i] for i in skipped],
        "mode": "markers",
        "name": "skipped step",
        "marker": {"color": "@bad", "symbol": "x", "size": 9},
    }
    layout = _axes("step", "scale")
    layout["yaxis"].update(type="log", dtick=1, exponentformat="power")
    caption = (
        f"{len(skipped)} of {len(trace.taken)} steps were skipped while the scale was looked for."
    )
    yield Figure(
        f"scale-{name}",
        f"Loss scale and skipped steps, {trace.dtype}",
        caption,
        [scale, marks],
        layout,
    )


def _underflow(report: Report, name: str) -> Iterator[Figure]:
    rows = sorted(report.runs.underflow.get(name, []), key=lambda one: -one.lost_unscaled)[:30][
        ::-1
    ]
    if not rows:
        return
    names = [row.parameter for row in rows]
    common = {"type": "bar", "orientation": "h", "y": names}
    traces = [
        {
            **common,
            "x": [row.lost_unscaled for row in rows],
            "name": "in float16 without a scaler",
            "marker": {"color": "@bad"},
        },
        {
            **common,
            "x": [row.lost for row in rows],
            "name": "in this run",
            "marker": {"color": "@amp"},
        },
    ]
    layout = _axes("share of the gradient's values", "")
    layout["xaxis"].update(tickformat=".0%", range=[0, 1])
    layout["yaxis"].update(automargin=True)
    layout["height"] = 180 + 26 * len(rows)
    caption = (
        "Share of each parameter's gradient, in the first step, that is rounded to zero. "
        "The worst 30 are shown."
    )
    yield Figure(
        f"underflow-{name}",
        f"Gradients lost to zero, {report.runs[name].dtype}",
        caption,
        traces,
        layout,
    )


def _bars(report: Report) -> Iterator[Figure]:
    shown = [name for name in ("original", "tf32", *report.runs.amp()) if name in report.runs]
    labels = [
        "float32"
        if name == "original"
        else name.upper()
        if name == "tf32"
        else report.runs[name].dtype
        for name in shown
    ]
    colours = ["@original" if name in ("original", "tf32") else "@amp" for name in shown]
    speeds = [report.runs[name].steps_per_second for name in shown]
    emulated = " On the CPU CUDA's rules are emulated: this says nothing about a GPU." * (
        report.options.device == "cpu"
    )
    if all(speeds):
        times = [1e3 / speed for speed in speeds if speed]
        yield _bar(
            "time",
            "Time per step",
            f"Median, in milliseconds.{emulated}",
            labels,
            times,
            colours,
            "ms",
        )
    peaks = [report.runs[name].peak_memory_bytes / 2**20 for name in shown]
    if all(peaks):
        yield _bar("memory", "Peak memory", f"In MiB.{emulated}", labels, peaks, colours, "MiB")


def _bar(
    name: str,
    title: str,
    caption: str,
    labels: list[str],
    values: list[float],
    colours: list[str],
    unit: str,
) -> Figure:
    trace = {
        "type": "bar", "x": labels, "y": values, "marker": {"color": colours}, "showlegend": False,
        "text": [f"{value:.3g}" for value in values], "textposition": "outside", "cliponaxis":
        False,
    }  # fmt: skip
    return Figure(name, title, caption, [trace], _axes("", unit))


def _axes(x: str, y: str) -> dict[str, Any]:
    return {
        "xaxis": {"title": {"text": x}},
        "yaxis": {"title": {"text": y}},
        "legend": {"orientation": "h", "y": 1.15},
    }


def _short(site: str) -> str:
    """`train.py:12` of a path."""
    return site.replace("\\", "/").rpartition("/")[2]
