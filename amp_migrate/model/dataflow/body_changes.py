"""What each statement of one body does to names, and which names each of its loops may change."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TypeAlias

from amp_migrate.model.dataflow.body_events import (
    Event,
    Events,
    Invoke,
    Read,
    Unbind,
)
from amp_migrate.model.syntax.module import LOOPS, Scope, blocks

SetBy: TypeAlias = Callable[[ast.Call, Scope], frozenset[str]]


class BodyChanges:
    """The events of one body, before it is walked."""

    def __init__(self, scope: Scope, events: Events, set_by: SetBy) -> None:
        self.scope = scope
        self.events = events
        self.set_by = set_by
        self.headers: dict[ast.stmt, list[Event]] = {}
        """What a statement does, apart from its blocks."""
        self.deleted: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        """The attributes that are set somewhere, by the first name."""
        self._changed: dict[ast.stmt, set[str]] = {}
        self._fill()

    def in_loop(self, loop: ast.stmt) -> set[str]:
        """The names that a loop may change, and the attributes of what they name."""
        names = self._changed.get(loop, set())
        return names | {
            key for name in names for key in self.attributes.get(name, ())
        }

    def opening(self, node: ast.AST) -> list[Event]:
        """What a target, a handler or a pattern binds where its block begins."""
        return self.events.bound(node, self.scope.self_name)

    def _fill(self) -> None:
        """Note the events of each statement, and the names that each loop may change."""
        waiting: list[tuple[list[ast.stmt], tuple[ast.stmt, ...]]] = [
            (self.scope.body, ())
        ]
        while waiting:
            block, loops = waiting.pop()
            for statement in block:
                events = self.events.header(statement, self.scope.self_name)
                self.headers[statement] = events
                is_loop = isinstance(statement, LOOPS)
                around = (*loops, statement) if is_loop else loops
                self._note([*events, *self._openings(statement)], around)
                waiting += [(inner, around) for inner in blocks(statement)]

    def _openings(self, statement: ast.stmt) -> list[Event]:
        """What is bound where the blocks of a statement begin: targets, exceptions, patterns."""
        is_for = isinstance(statement, (ast.For, ast.AsyncFor))
        nodes: list[ast.AST] = [statement] if is_for else []
        nodes += getattr(statement, "handlers", ())
        for case in getattr(statement, "cases", ()):
            nodes += ast.walk(case.pattern)
        return [event for node in nodes for event in self.opening(node)]

    def _note(
        self, events: Iterable[Event], loops: tuple[ast.stmt, ...]
    ) -> None:
        for event in events:
            if isinstance(event, Invoke):
                keys = self.set_by(event.call, self.scope)
            else:
                keys = frozenset((event.key,))
            self.deleted |= keys if isinstance(event, Unbind) else frozenset()
            for key in keys:
                head, dot, _ = key.partition(".")
                if dot:
                    self.attributes.setdefault(head, set()).add(key)
            for loop in loops if not isinstance(event, Read) else ():
                self._changed.setdefault(loop, set()).update(keys)
