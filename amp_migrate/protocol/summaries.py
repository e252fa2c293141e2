"""What a call of a function does to a path, computed once for each state that matters to it.

A function sees of its caller's path only what it names, itself or through what it calls: the
conditions and values whose words it uses. The rest is set aside before the call and put back
behind it, so that two calls that differ only in it share one run of the body.
"""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import Function
from amp_migrate.patterns import pattern
from amp_migrate.protocol.frames import Frame
from amp_migrate.protocol.paths import DECISIVE, Mark, Path, Val, Witnesses
from amp_migrate.protocol.relevance import Relevance, form
from amp_migrate.records import NamedTuple

_NAME = pattern(r"(?:([\w.<>]+):)?([\w.]+)")
_FINE = 60
"""Calls of one function after which paths that differ only in where things happened share a
run.
"""
RETURN = "return "
"""Prefix of what a call in progress has returned, in `Path.env`."""


class Name(NamedTuple):
    """A name as identities spell it: the function that it is local to, and its words."""

    home: str
    root: str
    words: frozenset[str]


class Aside(NamedTuple):
    """What a call cannot touch."""

    facts: frozenset[tuple[str, bool]]
    env: dict[str, Val]
    marks: dict[Mark, Witnesses]


class Summaries:
    """Runs of functions, remembered by what they depend on."""

    def __init__(self, relevance: Relevance) -> None:
        self.relevance = relevance
        self._known: dict[object, list[Path]] = {}
        self._runs: dict[Function, int] = {}
        self._names: dict[str, tuple[Name, ...]] = {}

    def clear(self) -> None:
        """Forget all runs: who is who has changed."""
        self._known.clear()
        self._runs.clear()

    def key(
        self,
        function: Function,
        frame: Frame,
        path: Path,
        homes: frozenset[str],
    ) -> object:
        """What the outcome of running `function` on `path` depends on; `homes` are the functions
        whose local optimizers count only while they run.
        """
        running = self._running(function, frame, homes)
        self._runs[function] = self._runs.get(function, 0) + 1
        state = (
            path.whole_key()
            if self._runs[function] < _FINE
            else (path.key(), path.facts)
        )
        return (function, frame.loops, frame.handed, running, state)

    def get(self, key: object) -> list[Path] | None:
        """The paths behind an earlier run."""
        return self._known.get(key)

    def put(self, key: object, paths: list[Path]) -> None:
        """Remember a run."""
        self._known[key] = paths

    def _running(
        self, function: Function, frame: Frame, homes: frozenset[str]
    ) -> frozenset[ast.AST]:
        """The functions on the stack that `function` may call again, or that own optimizers."""
        reached = self.relevance.reached(function).functions
        found = set()
        here: Frame | None = frame
        while here is not None:
            name = here.scope.qualname
            if here.scope.node in reached or any(
                name == home or name.startswith(home + ".") for home in homes
            ):
                found.add(here.scope.node)
            here = here.caller
        return frozenset(found)

    def split(self, function: Function, path: Path) -> Aside:
        """Take off `path` what `function` cannot touch."""
        sight = self._sight(function, path)
        held = {value.text for value in path.env.values()}
        forms = self.relevance.reached(function).conditions
        facts = frozenset(
            fact
            for fact in path.facts
            if not self._is_seen(fact[0], *sight)
            or (fact[0] not in held and form(fact[0]) not in forms)
        )
        env = {
            key: value
            for key, value in path.env.items()
            if not self._is_seen(key, *sight)
        }
        marks = {
            mark: nodes
            for mark, nodes in path.marks.items()
            if mark[0] not in DECISIVE
            and not any(self._is_seen(n, *sight) for n in mark[1:])
        }
        path.facts -= facts
        path.env = {
            key: value for key, value in path.env.items() if key not in env
        }
        path.marks = {
            mark: nodes
            for mark, nodes in path.marks.items()
            if mark not in marks
        }
        return Aside(facts, env, marks)

    def joined(self, aside: Aside, after: Path) -> Path:
        """A path behind the call, with what was set aside before it."""
        path = after.fork()
        path.facts |= aside.facts
        path.env = {**aside.env, **path.env}
        path.marks = {**aside.marks, **path.marks}
        return path

    def left(self, qualname: str, path: Path) -> Path:
        """A path behind the function of this name: what was known of its own names is void."""
        local = [key for key in path.env if self._is_local(key, qualname)]
        facts = [
            fact for fact in path.facts if self._is_local(fact[0], qualname)
        ]
        if not local and not facts:
            return path
        path = path.fork()
        path.facts -= frozenset(facts)
        for key in local:
            del path.env[key]
        return path

    def _is_local(self, text: str, qualname: str) -> bool:
        return any(name.home == qualname for name in self._of(text))

    def _sight(
        self, function: Function, path: Path
    ) -> tuple[set[str], set[str], frozenset[str]]:
        """The words of a function with those of the names that stand behind them on the path,
        and the functions whose local names it sees.
        """
        reached = self.relevance.reached(function)
        words, roots, homes = set(reached.words), set[str](), reached.homes
        size = -1
        while size != len(words) + len(roots):
            size = len(words) + len(roots)
            for key, value in path.env.items():
                if value.text is not None and self._is_seen(
                    key, words, roots, homes
                ):
                    for name in self._of(value.text):
                        words |= name.words
                        roots.add(name.root)
        return words, roots, homes

    def _is_seen(
        self, text: str, words: set[str], roots: set[str], homes: frozenset[str]
    ) -> bool:
        return any(
            bool(words & name.words)
            and (not name.home or name.home in homes or name.root in roots)
            for name in self._of(text)
        )

    def _of(self, text: str) -> tuple[Name, ...]:
        """The names in an identity or in the text of a condition."""
        found = self._names.get(text)
        if found is None:
            parts = [
                (home, name.split(".")) for home, name in _NAME.findall(text)
            ]
            found = tuple(
                Name(home, f"{home}:{words[0]}", frozenset(words))
                for home, words in parts
            )
            self._names[text] = found
        return found
