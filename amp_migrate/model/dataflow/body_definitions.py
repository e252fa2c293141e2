"""The definitions that names have while a body is walked, and what single events do to them."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.dataflow.body_changes import BodyChanges
from amp_migrate.model.dataflow.body_events import (
    Bind,
    Event,
    Read,
    Unbind,
    locals_of,
)
from amp_migrate.model.naming.definitions import (
    ENTRY,
    UNBOUND,
    Called,
    Items,
    Journal,
    OfObject,
    proved_of,
)
from amp_migrate.model.syntax.module import Binding


class BodyDefinitions:
    """The journal of one body, written event by event."""

    def __init__(self, changes: BodyChanges) -> None:
        self.changes = changes
        self.journal = Journal(self._first)
        self._local, self._rebound = locals_of(changes.scope)

    def _first(self, key: str) -> Items:
        head, dot, _ = key.partition(".")
        if not dot:
            return UNBOUND if key in self._local else ENTRY
        if self._is_silent(key):
            return frozenset(
                OfObject(head, binding) for binding in self._rebound[head]
            )
        return ENTRY

    def _is_silent(self, key: str) -> bool:
        """Whether a body gives a name new objects, and never mentions an attribute of them."""
        head, dot, _ = key.partition(".")
        mentioned = self.changes.attributes.get(head, ())
        return bool(dot) and head in self._rebound and key not in mentioned

    def at(self, key: str, position: int) -> Items:
        """What may be in `key` at a position; where its holder has no value, it has none."""
        items = self.journal.at(key, position)
        head = key.partition(".")[0]
        if self._is_silent(key) and UNBOUND.issubset(
            self.journal.at(head, position)
        ):
            return items | UNBOUND
        return items

    def apply(self, events: Iterable[Event]) -> None:
        """What happens in this order, without branches."""
        for event in events:
            if isinstance(event, Read):
                self._read(event.key)
            elif isinstance(event, Bind):
                self._bind(event)
            elif isinstance(event, Unbind):
                self.assign(event.key, UNBOUND)
            else:
                self._invoke(event.call)

    def _read(self, key: str) -> None:
        items = self.journal.get(key)
        proved = frozenset(
            p for item in items if (p := proved_of(item)) is not None
        )
        if proved != items:
            self.journal.set(key, proved)

    def _bind(self, event: Bind) -> None:
        items: Items = frozenset((event.binding,))
        if not event.always:
            items |= self.journal.get(event.key)
        self.assign(event.key, items, event.binding)

    def assign(
        self, key: str, items: Items, binding: Binding | None = None
    ) -> None:
        """A new object under `key`: what is known of its attributes goes."""
        self.journal.set(key, items)
        if "." not in key:
            fresh = (
                frozenset((OfObject(key, binding),))
                if binding is not None
                else UNBOUND
            )
            for attribute in self.changes.attributes.get(key, ()):
                self.journal.set(attribute, fresh)
            return
        for attribute in self.changes.attributes.get(key.partition(".")[0], ()):
            if attribute.startswith(f"{key}.") and binding is not None:
                self.journal.set(
                    attribute, frozenset((OfObject(key, binding),))
                )

    def _invoke(self, call: ast.Call) -> None:
        for key in self.changes.set_by(call, self.changes.scope):
            self.journal.set(
                key, frozenset((Called(call, key, self.journal.get(key)),))
            )
