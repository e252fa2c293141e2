"""Where a syntax node stands in its module."""

from __future__ import annotations

from amp_migrate.records import NamedTuple


class Span(NamedTuple):
    """Half-open byte range of one syntax node in the UTF-8 source."""

    start: int
    end: int
