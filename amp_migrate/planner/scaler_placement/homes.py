"""How long a scaler lives."""

from __future__ import annotations

from dataclasses import dataclass

from amp_migrate.model.syntax.module import Scope


@dataclass(frozen=True)
class Home:
    """One lifetime of a scaler: a scope in which it is a local (or a global), or the method that
    sets `self.scaler`.
    """

    scope: Scope
    attribute: str | None = None
    """`self` where the scaler is an attribute."""
    top: bool = False
    """Made at the top of a function that gets its optimizer as a parameter."""

    def __hash__(self) -> int:
        return hash((id(self.scope), self.attribute, self.top))
