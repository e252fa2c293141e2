"""Which modules a failing program needs in float32: tried one after the other, as text, until one
passes every check; then those that it passes without are given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from amp_migrate.runtime.islands import kept
from amp_migrate.runtime.trace import Place

MOST_SUSPECTS = 3
MOST_TRIALS = 8

Texts = Mapping[str, str]
Trial = Callable[[str, Texts], list[str]]
"""Runs the texts under a name; the names of the checks that fail."""


@dataclass
class Search:
    """`places`: by module, where its use can be changed. `said` tells what was tried."""

    places: Mapping[str, Sequence[Place]]
    rewrites: Texts
    original: Callable[[str], str]
    trial: Trial
    said: list[str] = field(default_factory=list)
    _tried: int = 0

    def run(self, suspects: Sequence[str]) -> dict[str, str] | None:
        """The rewritten texts that pass; None where nothing that was tried does."""
        for chosen in self._sets(suspects):
            texts = self._passing(chosen)
            if texts is not None:
                return self._least(chosen, texts)
        self.said.append(
            "no module was found that makes it pass when it is kept in float32"
            if self._tried
            else "no line of the program's own files calls or defines the modules in question"
        )
        return None

    def _sets(self, suspects: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """The suspects, one more at a time; then what holds the first one, and what holds that."""
        units = list(dict.fromkeys(filter(None, map(self._unit, suspects))))[
            :MOST_SUSPECTS
        ]
        yield from (tuple(units[: count + 1]) for count in range(len(units)))
        holder = self._unit(_parent(units[0])) if units else None
        while holder is not None:
            yield (holder,)
            holder = self._unit(_parent(holder))

    def _unit(self, name: str) -> str | None:
        """The module itself, or the nearest one that holds it, which a line of the user's calls or
        defines.
        """
        while name and not self.places.get(name):
            name = _parent(name)
        return name or None

    def _passing(self, chosen: tuple[str, ...]) -> dict[str, str] | None:
        if self._tried >= MOST_TRIALS:
            return None
        texts = self._texts(chosen)
        if texts is None:
            return None
        self._tried += 1
        told = f"{', '.join(chosen)} in float32"
        bad = self.trial(told, texts)
        self.said.append(
            f"tried: {told} {'fails ' + ', '.join(bad) if bad else 'passes'}"
        )
        return None if bad else texts

    def _texts(self, chosen: tuple[str, ...]) -> dict[str, str] | None:
        texts: dict[str, str] | None = dict(self.rewrites)
        for name in chosen:
            if texts is None:
                return None
            options = (
                kept([place], texts, self.original)
                for place in self.places[name]
            )
            texts = next(
                (found for found in options if found is not None), None
            )
        return texts

    def _least(
        self, chosen: tuple[str, ...], texts: dict[str, str]
    ) -> dict[str, str]:
        for name in chosen[:-1]:  # without the last one it failed
            fewer = tuple(one for one in chosen if one != name)
            found = self._passing(fewer)
            if found is not None:
                chosen, texts = fewer, found
        return texts


def _parent(name: str) -> str:
    return name.rpartition(".")[0]
