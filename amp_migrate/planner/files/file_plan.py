"""What was decided about one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from amp_migrate.outcome import LoopOutcome, Note
from amp_migrate.rewrite.edits import Edit
from amp_migrate.rewrite.proof import Introduced


@dataclass
class Plan:
    """The decisions about one file."""

    loops: list[LoopOutcome] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    introduced: Introduced = field(default_factory=Introduced)
    askers: Mapping[str, frozenset[tuple[str, str]]] = field(
        default_factory=dict
    )
    """By the scope that they change: the loops, by path and scope, that asked for it."""
