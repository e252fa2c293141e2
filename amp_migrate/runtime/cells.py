"""Lines of a notebook as its readers know them: by cell, and by line in it. A notebook runs as one
program, whose lines are those of all its cells together.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import replace

from amp_migrate.project.notebook_cells import Places
from amp_migrate.project.prefilter import is_notebook
from amp_migrate.runtime.sources import source
from amp_migrate.runtime.trace import Trace

_FRAME = re.compile(r'(File "(.+\.ipynb)"), line (\d+)')
_SITE = re.compile(r"(.+\.ipynb):(\d+)")
Lines = tuple[str, int, int, bool]


@functools.lru_cache(maxsize=16)
def _places(path: str) -> Places | None:
    try:
        return Places.of(source(path))
    except (OSError, ValueError):
        return None


def _at(path: str, line: int) -> tuple[int, int] | None:
    """Cell and line in it; None where `path` is no notebook that can be read."""
    places = _places(path) if is_notebook(path) else None
    return places.at(line) if places is not None else None


def traceback_by_cell(text: str) -> str:
    """A traceback as Python shows it, its frames in notebooks told by cell."""

    def told(found: re.Match[str]) -> str:
        at = _at(found[2], int(found[3]))
        return (
            found[0]
            if at is None
            else f"{found[1]}, cell {at[0]}, line {at[1]}"
        )

    return _FRAME.sub(told, text)


def site_by_cell(site: str) -> str:
    """`file:line`, that of a notebook as `file:cell number:line`."""

    def told(found: re.Match[str]) -> str:
        at = _at(found[1], int(found[2]))
        return found[0] if at is None else f"{found[1]}:cell {at[0]}:{at[1]}"

    return _SITE.sub(told, site)


def _lines_by_cell(lines: Lines) -> Iterator[Lines]:
    """A stretch of lines, one for each of the cells that it runs over."""
    path, first, last, changed = lines
    places = _places(path) if is_notebook(path) else None
    if places is None:
        yield lines
        return
    cut = [first, *(one + 1 for one in places.above if first < one <= last)]
    for start, after in zip(cut, [*cut[1:], last + 2], strict=True):
        cell, line = places.at(start)
        end = line + after - 2 - start
        yield f"{path}:cell {cell}", line, max(end, line), changed


def by_cell(trace: Trace) -> None:
    """Tell what a trace says of notebooks by cell, but for the places where a module may be kept in
    float32: there the text is changed.
    """
    trace.error = traceback_by_cell(trace.error)
    trace.raised_at = site_by_cell(trace.raised_at)
    for sites in (
        trace.loss_sites,
        trace.loss_places,
        trace.step_sites,
        trace.processes,
    ):
        sites[:] = map(site_by_cell, sites)
    for found in trace.diagnosis.values():
        if "eps_at" in found:
            found["eps_at"] = site_by_cell(found["eps_at"])
    moved = ((one, _at(one.file, one.line)) for one in trace.violations)
    trace.violations = [
        one
        if at is None
        else replace(one, file=f"{one.file}:cell {at[0]}", line=at[1])
        for one, at in moved
    ]
    trace.not_entered = [
        part for lines in trace.not_entered for part in _lines_by_cell(lines)
    ]
