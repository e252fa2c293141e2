"""Charts as SVG: no script and no network, a few kilobytes each, and readable on a narrow screen.

Colours are classes of the page's style sheet (`page_assets`), so that they follow light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 400, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 392, 10, 194
_MOST = 400
"""Points of a line: more than a screen has columns for."""


@dataclass(frozen=True)
class Line:
    """`kind` is a class of the style sheet."""

    values: Sequence[float]
    name: str
    kind: str


@dataclass(frozen=True)
class Band:
    """What lies between two lines."""

    low: Sequence[float]
    high: Sequence[float]
    name: str


@dataclass(frozen=True)
class Marks:
    """Crosses at places counted from 1."""

    points: Sequence[tuple[int, float]]
    name: str


@dataclass(frozen=True)
class Row:
    """One label with bars: value, class, what a mouse over it shows."""

    label: str
    bars: Sequence[tuple[float, str, str]]


@dataclass(frozen=True)
class _Axis:
    """From values to places."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def lines(
    drawn: Sequence[Line], x: str, y: str, band: Band | None = None, marks: Marks | None = None,
    powers: bool = False,
) -> str:  # fmt: skip
    """A chart over the steps; nothing where there is no finite value. `powers`: by powers of 2."""
    given = [
        *(line.values for line in drawn),
        *([band.low, band.high] if band else []),
    ]
    change: Callable[[float], float] = _power if powers else float
    series = [[change(value) for value in values] for values in given]
    known = [
        value for values in series for value in values if math.isfinite(value)
    ]
    if not known:
        return ""
    across = _Axis(1, max(*map(len, series), 2), _LEFT, _RIGHT)
    up = _Axis(*_padded(min(known), max(known)), _BOTTOM, _TOP)
    parts = [*_grid(across, up, x, y, powers)]
    area = _area(series[-2], series[-1], across, up) if band else ""
    parts.append(area)
    for line, values in zip(drawn, series, strict=False):
        parts.append(_path(values, line.kind, across, up))
    for step, value in marks.points if marks else ():
        parts.append(_cross(across(step), up(change(value)), f"step {step}"))
    return _svg(HEIGHT, parts) + _legend(drawn, band if area else None, marks)


def bars(
    rows: Sequence[Row], largest: float, unit: str, legend: Sequence[Line] = ()
) -> str:
    """A label over each bar's row, so that long names fit."""
    across = _Axis(0, largest or 1.0, 4, WIDTH - 70)
    parts, top = [], 4.0
    for row in rows:
        parts.append(
            f'<text x="4" y="{top + 10:.0f}">{escape(row.label)}</text>'
        )
        top += 15
        for value, kind, told in row.bars:
            width = (
                max(across(value) - across(0), 1.0)
                if math.isfinite(value)
                else 1.0
            )
            parts.append(
                f'<rect class="{kind}" x="4" y="{top:.0f}" width="{width:.1f}" height="8">'
                f"<title>{escape(told)}</title></rect>"
                f'<text x="{width + 10:.1f}" y="{top + 8:.0f}">{escape(told)}</text>'
            )
            top += 11
        top += 6
    parts.append(
        f'<text class="soft" x="4" y="{top + 8:.0f}">{escape(unit)}</text>'
    )
    return _svg(int(top) + 14, parts) + _legend(legend, None, None)


def _power(value: float) -> float:
    return math.log2(value) if value > 0 else math.nan


def _svg(height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(parts)}</svg>"
    )


def _padded(low: float, high: float) -> tuple[float, float]:
    room = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _grid(
    across: _Axis, up: _Axis, x: str, y: str, powers: bool
) -> Iterator[str]:
    for value in _ticks(up.low, up.high, whole=powers):
        place = up(value)
        told = f"2^{value:g}" if powers else f"{value:.4g}"
        yield f'<path class="grid" d="M{_LEFT} {place:.1f}H{_RIGHT}"/>'
        yield f'<text class="end" x="{_LEFT - 5}" y="{place + 4:.1f}">{told}</text>'
    for value in _ticks(across.low, across.high, whole=True):
        place = across(value)
        yield f'<text class="middle" x="{place:.1f}" y="{_BOTTOM + 15}">{value:g}</text>'
    middle = (_LEFT + _RIGHT) / 2
    yield f'<text class="middle soft" x="{middle:.0f}" y="{HEIGHT - 6}">{escape(x)}</text>'
    yield f'<text class="soft" x="2" y="{HEIGHT - 6}">{escape(y)}</text>'


def _ticks(low: float, high: float, whole: bool) -> Iterator[float]:
    """About five round numbers."""
    size = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(
        size * by for by in (1, 2, 5, 10) if (high - low) / (size * by) <= 6
    )
    step = max(1.0, round(step)) if whole else step
    first, last = math.ceil(low / step), math.floor(high / step)
    yield from (place * step for place in range(first, last + 1))


def _thinned(values: Sequence[float]) -> Iterator[tuple[int, float]]:
    """Places from 1 with their values; of many, the lowest and the highest of each stretch."""
    pairs = list(enumerate(values, 1))
    if len(pairs) <= _MOST:
        yield from pairs
        return
    size = math.ceil(2 * len(pairs) / _MOST)
    for start in range(0, len(pairs), size):
        part = pairs[start : start + size]
        chosen = [pair for pair in part if math.isfinite(pair[1])] or part[:1]
        ends = {
            min(chosen, key=lambda pair: pair[1]),
            max(chosen, key=lambda pair: pair[1]),
        }
        yield from sorted(ends)


def _path(values: Sequence[float], kind: str, across: _Axis, up: _Axis) -> str:
    words, pen = [], "M"
    for step, value in _thinned(values):
        if math.isfinite(value):
            # A value alone is a point: a line of no length has round ends.
            words.append(
                f"{pen}{across(step):.1f} {up(value):.1f}{'h0' * (pen == 'M')}"
            )
        pen = "L" if math.isfinite(value) else "M"
    return f'<path class="line {kind}" d="{"".join(words)}"/>' if words else ""


def _area(
    low: Sequence[float], high: Sequence[float], across: _Axis, up: _Axis
) -> str:
    pairs = [
        (step, bottom, top)
        for (step, bottom), top in zip(enumerate(low, 1), high, strict=True)
        if math.isfinite(bottom) and math.isfinite(top)
    ]
    pairs = pairs[:: max(len(pairs) // _MOST, 1)]
    there = [f"{across(step):.1f} {up(top):.1f}" for step, _, top in pairs]
    back = [
        f"{across(step):.1f} {up(bottom):.1f}"
        for step, bottom, _ in reversed(pairs)
    ]
    return (
        f'<path class="band" d="M{"L".join(there + back)}Z"/>' if pairs else ""
    )


def _cross(x: float, y: float, told: str) -> str:
    if not math.isfinite(y):
        return ""
    left, right, top, bottom = (
        f"{place:.1f}" for place in (x - 3, x + 3, y - 3, y + 3)
    )
    shape = f"M{left} {top}L{right} {bottom}M{right} {top}L{left} {bottom}"
    return f'<path class="line bad" d="{shape}"><title>{escape(told)}</title></path>'


def _legend(
    drawn: Sequence[Line], band: Band | None, marks: Marks | None
) -> str:
    keys = [(line.kind, line.name) for line in drawn]
    keys += [("band", band.name)] if band else []
    keys += [("bad", marks.name)] if marks and marks.points else []
    told = "".join(
        f'<span><i class="{kind}"></i>{escape(name)}</span> '
        for kind, name in keys
    )
    return f'<p class="legend">{told}</p>' if keys else ""
