"""One path through a training program: what is known on it about names, conditions and the
scalers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.protocol.machine import State
from amp_migrate.records import NamedTuple


class Val(NamedTuple):
    """What is known about the value of a name on one path."""

    text: str | None = None
    """Another name of the same value, or the condition that it holds."""
    flipped: bool = False
    """It holds the contrary of `text`."""
    amp: bool | None = None
    """It is true where AMP is on (True), or where it is off (False)."""
    models: frozenset[str] = frozenset()
    """Models whose outputs it was computed from, with gradients."""
    vague: bool = False
    """It was computed out of sight, by models that are not known."""
    scaled: str | None = None
    """The scaler that scaled it; `?` where it may have been."""
    constant: tuple[object, ...] = ()
    """Its value, where that is a constant."""


NOTHING = Val()


def joined(values: Iterable[Val]) -> Val:
    """A value computed from several."""
    models: frozenset[str] = frozenset()
    scaled, vague = None, False
    for value in values:
        models |= value.models
        scaled = value.scaled or scaled
        vague = vague or value.vague
    return (
        Val(models=models, scaled=scaled, vague=vague)
        if models or scaled or vague
        else NOTHING
    )


Mark = tuple[str, ...]
Witnesses = tuple[ast.AST, ...]
DECISIVE = frozenset({"bare", "left", "known"})
"""Marks that decide what a later event means; the others only tell where something happened."""


class FactIndex:
    """Which conditions mention which names, for all paths of one analysis."""

    def __init__(self) -> None:
        self._texts: dict[str, set[str]] = {}

    def mention(self, text: str, names: Iterable[str]) -> None:
        """The condition `text` reads these names."""
        for name in names:
            self._texts.setdefault(name, set()).add(text)

    def texts(self, name: str) -> set[str]:
        """Conditions that are void once `name` has a new value."""
        return self._texts.get(name, set())


class Path:
    """A state of the analysis; paths are forked at conditions, and joined where nothing but
    conditions differs.
    """

    def __init__(self, index: FactIndex | None = None) -> None:
        self.index = FactIndex() if index is None else index
        self.facts: frozenset[tuple[str, bool]] = frozenset()
        """Conditions decided on the way."""
        self.env: dict[str, Val] = {}
        self.scalers: dict[str, State] = {}
        self.amp: bool | None = None
        """Whether AMP is on, as far as a test or a scaled backward has shown."""
        self.lost: frozenset[str] = frozenset()
        """Scalers and optimizers that code out of sight may have used."""
        self.marks: dict[Mark, Witnesses] = {}
        """Where things happened last: `("step", scaler, optimizer)`."""
        self.sure = True
        """Whether the path can happen; a widened one stands for combinations that may not."""
        self.last: tuple[str, bool] | None = None
        """The condition that was decided last, which tells most paths apart at once."""
        self._key: tuple[object, ...] | None = None

    def fork(self) -> Path:
        """An independent copy."""
        other = Path(self.index)
        other.facts, other.lost = self.facts, self.lost
        other.env, other.scalers = dict(self.env), dict(self.scalers)
        other.marks = dict(self.marks)
        other.amp, other.sure, other.last = self.amp, self.sure, self.last
        return other

    def key(self) -> tuple[object, ...]:
        """All that decides what can follow, but the facts; kept, since a path is changed only
        right after it was forked.
        """
        if self._key is None:
            held = frozenset(self.env.items())
            self._key = (held, *self.protocol(), self.sure)
        return self._key

    def protocol(self) -> tuple[object, ...]:
        """What the scalers have seen, whatever the names hold."""
        return (
            frozenset(self.scalers.items()),
            self.amp,
            self.lost,
            frozenset(mark for mark in self.marks if mark[0] in DECISIVE),
        )

    def whole_key(self) -> tuple[object, ...]:
        """Everything that is known on the path."""
        return (self.key(), self.facts, frozenset(self.marks.items()))

    def knows(self, text: str) -> bool | None:
        """Which way a condition went on this path, if it was met."""
        if (text, True) in self.facts:
            return True
        return False if (text, False) in self.facts else None

    def learn(self, text: str, way: bool, names: Iterable[str]) -> None:
        """The condition `text`, which reads `names`, went this way."""
        self.index.mention(text, names)
        self.last = (text, way)
        self.facts |= {self.last}

    def mark(self, mark: Mark, node: ast.AST) -> None:
        """It happened at `node`, for the last time so far."""
        self.marks[mark] = (node,)

    def forget(self, mark: Mark) -> None:
        """It no longer matters."""
        self.marks.pop(mark, None)

    def where(self, mark: Mark) -> ast.AST | None:
        """A place where it happened last."""
        found = self.marks.get(mark)
        return found[0] if found else None

    def assign(self, name: str, value: Val) -> None:
        """`name` gets a new value; what was known about conditions that mention it is void."""
        if self.facts:
            void = self.index.texts(name)
            self.facts = frozenset(
                fact for fact in self.facts if fact[0] not in void
            )
        if self.env:
            inner = name + "."
            for key in [k for k in self.env if k.startswith(inner)]:
                del self.env[key]
        if value is NOTHING:
            self.env.pop(name, None)
        else:
            self.env[name] = value


def merged(paths: list[Path], limit: int) -> list[Path]:
    """Join paths with the same state, and widen what is more than `limit`.

    Two paths that disagree on one condition alone become one that leaves it open; of two, one of
    which knows less, the other one goes. Anything more would make up combinations, so a widened
    path (one per state, which knows what all paths to it know) is no longer sure. Where even
    these are too many, what names hold is forgotten, and each state of the scalers has one.
    """
    if len(paths) < 2:
        return paths
    groups: dict[tuple[object, ...], list[Path]] = {}
    for path in paths:
        _add(groups.setdefault(path.key(), []), path)
    found = [path for group in groups.values() for path in group]
    if len(found) <= limit:
        return found
    found = [_intersected(group) for group in groups.values()]
    if len(found) <= limit:
        return found
    states: dict[tuple[object, ...], list[Path]] = {}
    for path in found:
        states.setdefault(path.protocol(), []).append(path)
    return [_intersected(group) for group in states.values()]


def _intersected(group: list[Path]) -> Path:
    if len(group) == 1:
        return group[0]
    joint = group[0].fork()
    joint.facts = frozenset.intersection(*(path.facts for path in group))
    held = set(joint.env.items()).intersection(
        *(path.env.items() for path in group)
    )
    joint.env = dict(held)
    for path in group[1:]:
        joint.marks = _both(joint.marks, path.marks)
    joint.sure = False
    return joint


def _add(group: list[Path], path: Path) -> None:
    index = 0
    while index < len(group):
        joint = _joint(group[index], path)
        if joint is None:
            index += 1
            continue
        if joint is group[index]:
            return
        del group[index]
        path, index = joint, 0
    group.append(path)


def _stay_apart(one: Path, other: Path) -> bool:
    """Whether the conditions that were decided last show that two paths cannot be joined, however
    many came before: a long chain of `elif` would be compared fact by fact for each of its arms.
    """
    if len(one.facts) == len(other.facts):
        ours, theirs = one.last, other.last
        known = ours in one.facts and theirs in other.facts
        return (
            known
            and ours not in other.facts
            and theirs not in one.facts
            and (ours is None or theirs is None or ours[0] != theirs[0])
        )
    few, many = sorted((one, other), key=lambda path: len(path.facts))
    return few.last in few.facts and few.last not in many.facts


def _joint(one: Path, other: Path) -> Path | None:
    if _stay_apart(one, other):
        return None
    shared = one.facts & other.facts
    left, right = one.facts - shared, other.facts - shared
    if left and right:
        if (
            len(left) != 1
            or len(right) != 1
            or next(iter(left))[0] != next(iter(right))[0]
        ):
            return None
    wider = one if not left else other if not right else None
    marks = _both(one.marks, other.marks)
    if wider is not None and wider.marks == marks:
        return wider
    joint = one.fork()
    joint.facts = shared
    joint.marks = marks
    return joint


_WITNESSES = 8


def _both(
    one: dict[Mark, Witnesses], other: dict[Mark, Witnesses]
) -> dict[Mark, Witnesses]:
    """The marks of two paths that are one from here on."""
    if one == other:
        return one
    joint = dict(one)
    for mark, nodes in other.items():
        known = joint.get(mark, ())
        new = tuple(node for node in nodes if node not in known)
        joint[mark] = (*known, *new)[:_WITNESSES] if new else known
    return joint
