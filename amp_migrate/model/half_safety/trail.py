"""What is found when a value is followed back to where it is made, and where that stands."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.flags import Flag, auto
from amp_migrate.model.forwards.loss_origins import Behind
from amp_migrate.model.half_safety.value_parts import Path
from amp_migrate.model.syntax.module import Scope
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts.ops import Trait

_DEEP = 40


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


class WeakPlace(NamedTuple):
    """A place where half precision takes something away."""

    cast: ast.expr | None
    """What must be float32; None where nothing written there helps."""
    what: str
    saturates: bool
    split: ast.Call | None = None
    """A call of an `nn.Sequential` whose last layer must get float32."""
    is_float: bool = True
    """Whether the last layer then gives float32, whichever of several it is."""
    file: str = ""
    """The other file of the project in which it stands."""

    def of_file(self, file: str) -> WeakPlace:
        """The same in another file, where nothing mends it from here."""
        origin = self.file or file
        return self._replace(cast=None, split=None, file=origin)


class Demand(NamedTuple):
    """What is done to a part of a value: `complemented`, it has been taken from 1 before."""

    trait: Trait
    complemented: bool
    path: Path


class Unseen(NamedTuple):
    """Where a value cannot be followed any further."""

    node: ast.AST
    why: str
    behind: tuple[Behind, ...] = ()
    """The definitions of other programs that it may come out of."""
    above: bool = False
    """Whether callers may show more."""


class Frame(NamedTuple):
    """A call that was gone into: what it gives its parameters is told by it alone."""

    inner: Scope
    call: ast.Call
    scope: Scope


class Place(NamedTuple):
    """Where an expression stands, and the calls through which it was reached."""

    scope: Scope
    depth: int = _DEEP
    frames: tuple[Frame, ...] = ()
    complemented: bool = False
    """Whether its value is taken from 1 on its way."""

    def at(self, scope: Scope) -> Place:
        """A step further, in the same or another body."""
        return self._replace(scope=scope, depth=self.depth - 1)

    def into(self, inner: Scope, call: ast.Call) -> Place:
        """In the body that a call runs."""
        frames = (*self.frames, Frame(inner, call, self.scope))
        return self.at(inner)._replace(frames=frames)

    def out_of(self, frame: Frame) -> Place:
        """Where the call stands by which a body was reached."""
        before = self.frames[: self.frames.index(frame)]
        return self.at(frame.scope)._replace(frames=before)

    def frame(self) -> Frame | None:
        """The call by which this body was reached."""
        found = (
            one for one in reversed(self.frames) if one.inner is self.scope
        )
        return next(found, None)


class Trail(NamedTuple):
    """What was found behind an expression."""

    weak: tuple[WeakPlace, ...] = ()
    origin: Origin = Origin.NONE


def joined(found: Iterable[Trail]) -> Trail:
    """What was found on several ways."""
    weak: dict[WeakPlace, None] = {}
    origin = Origin.NONE
    for one in found:
        weak |= dict.fromkeys(one.weak)
        origin |= one.origin
    return Trail(tuple(weak), origin)
