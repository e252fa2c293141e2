"""What a probability comes from."""

from __future__ import annotations

import ast

from amp_migrate.flags import Flag, auto
from amp_migrate.model.syntax import Scope
from amp_migrate.records import NamedTuple


class Origin(Flag):
    """What became of a value on its way back."""

    NONE = 0
    """It was met before."""
    SQUASHED = auto()
    """It lies between 0 and 1, and what squashes it is computed in float32."""
    RAW = auto()
    """A layer's weighted sums: any numbers."""
    GIVEN = auto()
    """It is made in float32 outside of the regions."""

    @property
    def is_probability(self) -> bool:
        """Whether a binary cross-entropy would take it, and half precision has spoiled nothing."""
        return Origin.SQUASHED in self or self == Origin.GIVEN


class Frame(NamedTuple):
    """A call that was gone into: what it gives its parameters is told by it alone."""

    inner: Scope
    call: ast.Call
    scope: Scope


class Place(NamedTuple):
    """Where an expression stands, and the calls through which it was reached."""

    scope: Scope
    depth: int
    frames: tuple[Frame, ...] = ()

    def at(self, scope: Scope) -> Place:
        """A step further, in the same or another body."""
        return Place(scope, self.depth - 1, self.frames)

    def into(self, inner: Scope, call: ast.Call) -> Place:
        """In the body that a call runs."""
        frame = Frame(inner, call, self.scope)
        return Place(inner, self.depth - 1, (*self.frames, frame))

    def out_of(self, frame: Frame) -> Place:
        """Where the call stands by which a body was reached."""
        before = self.frames[: self.frames.index(frame)]
        return Place(frame.scope, self.depth - 1, before)

    def frame(self) -> Frame | None:
        """The call by which this body was reached."""
        found = (
            one for one in reversed(self.frames) if one.inner is self.scope
        )
        return next(found, None)
