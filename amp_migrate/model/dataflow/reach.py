"""What is known about a name at a place."""

from __future__ import annotations

from amp_migrate.model.syntax.module import Binding
from amp_migrate.records import NamedTuple


class Reach(NamedTuple):
    """The bindings that may reach a place."""

    bindings: tuple[Binding, ...] = ()
    certain: bool = False
    """Whether the name is bound there on every path."""
    complete: bool = False
    """Whether these are all: no caller, object or file out of sight may bind it as well."""


UNKNOWN = Reach()
ASSUMED = Reach((), certain=True, complete=True)
"""The answer to a question that is being answered: it adds nothing."""
