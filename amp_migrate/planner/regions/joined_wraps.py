"""Regions of several loops that share statements, such as the forward of two losses: one region
goes around all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from amp_migrate.rewrite.edits import Edit, WrapStatements


def joined(edits: Iterable[Edit]) -> list[Edit]:
    """The edits, with one for all wraps under one context that overlap, in place of the first."""
    found = list(edits)
    wraps = [one for one in found if isinstance(one, WrapStatements)]
    whole: dict[Edit, WrapStatements] = {}
    for run in _overlapping(wraps):
        widest = max(run, key=lambda one: one.last.end)
        whole |= dict.fromkeys(run, run[0]._replace(last=widest.last))
    return list(dict.fromkeys(whole.get(one, one) for one in found))


def _overlapping(wraps: list[WrapStatements]) -> list[list[WrapStatements]]:
    """Each begins before the ones above it end; of those that begin together the longest leads."""
    runs: dict[str, list[list[WrapStatements]]] = {}
    for one in sorted(wraps, key=lambda one: (one.first, -one.last.end)):
        same = runs.setdefault(one.header, [])
        if same and one.first.start < max(x.last.end for x in same[-1]):
            same[-1].append(one)
        else:
            same.append([one])
    return [run for same in runs.values() for run in same]
