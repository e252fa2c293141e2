"""Which bindings of a name or attribute may reach a place, and whether one does on every path.

`device` at a statement, `self.device` in a method, `args.device` in a function that gets `args`:
the bindings of the same body in the order of its statements (`body_flow`), and where it has none,
those of the callers, of the enclosing scopes, or of the object's class (`body_entry`). A name that
has been read is bound, or the program would have ended there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

from amp_migrate.model.budget import spend
from amp_migrate.model.calls.call_graph import CallGraph
from amp_migrate.model.calls.self_calls import SelfCalls
from amp_migrate.model.dataflow.body_entry import BodyEntry
from amp_migrate.model.dataflow.body_events import Bind, Events, normal_key
from amp_migrate.model.dataflow.body_exit import Found, Left
from amp_migrate.model.dataflow.body_flow import BodyFlow
from amp_migrate.model.dataflow.entries import Entries, Open
from amp_migrate.model.dataflow.reach import UNKNOWN, Reach
from amp_migrate.model.naming.definitions import (
    Called,
    Entry,
    Item,
    Items,
    OfObject,
    Phi,
    Unbound,
    proved_of,
)
from amp_migrate.model.naming.imported import Imported
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Module, Scope
from amp_migrate.model.values.read_by_callers import is_read_by_callers

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Reaching:
    """Answers `at` and `after` for the files of one program."""

    def __init__(self, module: Module, graph: CallGraph) -> None:
        self.module = module
        self.graph = graph
        self.imported = Imported(module)
        self.calls = SelfCalls(self)
        self._flows: dict[Scope, BodyFlow] = {}
        self._scopes: dict[ast.AST, Scope] = {}
        self._named: dict[ast.stmt, list[Bind]] = {}
        self._known: dict[tuple[ast.AST, str], Reach] = {}
        self._left: dict[tuple[Scope, str], Left] = {}
        self.entry = BodyEntry(self)
        self.entries = Entries(self.entry.of)

    # -- questions

    def at(self, node: ast.expr | ast.stmt, dotted: str) -> Reach:
        """The bindings of `dotted` that may reach `node`: an expression where it is evaluated, a
        statement before it runs. No bindings, and not certain, for a node made on the way.
        Asked again for every loop.
        """
        spend()
        if Open.questions:
            return self._at(node, dotted)
        known = self._known.get((node, dotted))
        if known is None:
            known = self._known[node, dotted] = self._at(node, dotted)
        return known

    def _at(self, node: ast.expr | ast.stmt, dotted: str) -> Reach:
        place = self._place(node, dotted)
        if place is None or isinstance(place, Reach):
            return place or UNKNOWN
        scope, position = place
        if position is None:
            return self.on_entry(scope, dotted)
        return self.found(scope, dotted, position)

    def own(self, node: ast.expr | ast.stmt, dotted: str) -> Reach | None:
        """The same, where only bindings of the body that evaluates `node` reach it, and of the
        methods that it calls; None where callers or other scopes count as well.
        """
        place = self._place(node, dotted)
        if place is None or isinstance(place, Reach):
            return place
        scope, position = place
        key = normal_key(dotted, scope.self_name)
        if position is None:
            return None
        left = self.left(scope, key, self.flow(scope).at(key, position))
        if left.entry:
            return None
        return Reach(_ordered(left.bindings), left.certain, left.complete)

    def _place(
        self, node: ast.expr | ast.stmt, dotted: str
    ) -> tuple[Scope, int | None] | Reach | None:
        """The scope of a node and its position there, None in a lambda; or the answer itself."""
        if node not in self.module.parents:
            return None
        inner = self._in_comprehension(node, dotted)
        if inner is not None:
            return inner
        scope = self.scope_at(node)
        if isinstance(scope.node, ast.Lambda):
            return scope, None
        statement = self.module.statement_of(node)
        flow = self.flow(scope)
        position = flow.begins.get(statement)
        if position is None:
            return None
        if isinstance(statement, ast.While) and node is not statement:
            position = flow.heads[statement]
        return self._walrus(node, statement, dotted) or (scope, position)

    def after(self, statement: ast.stmt, dotted: str) -> Reach:
        """The bindings of `dotted` that may be there when `statement` has run to its end."""
        scope = self.scope_at(statement)
        position = self.flow(scope).ends.get(statement)
        return (
            UNKNOWN if position is None else self.found(scope, dotted, position)
        )

    def is_bound(
        self, node: ast.expr | ast.stmt, dotted: str, *, after: bool = False
    ) -> bool:
        """Whether `dotted` may be read at `node` (or `after` that statement) without changing
        what the program does: it is bound there, or read a few statements later in any case (from
        the next statement on, where `node` is an expression), or by each caller.
        """
        return self.is_bound_within(
            node, dotted, after=after
        ) or is_read_by_callers(self, self.scope_at(node), dotted)

    def is_bound_within(
        self, node: ast.expr | ast.stmt, dotted: str, *, after: bool = False
    ) -> bool:
        """The same as far as the body around `node` tells."""
        if after and isinstance(node, ast.stmt):
            reach = self.after(node, dotted)
        else:
            reach = self.at(node, dotted)
        if reach.certain:
            return True
        statement = self.module.statement_of(node)
        key = normal_key(dotted, self.scope_at(node).self_name)
        return self.flow(self.scope_at(node)).will_read(
            statement, key, after=after or node is not statement
        )

    def at_exit(self, scope: Scope, dotted: str) -> Reach:
        """The same where the body of a scope has run to its end, or returned."""
        key = normal_key(dotted, scope.self_name)
        return self._bounded(scope, key, self.flow(scope).at_exit(key))

    def found(self, scope: Scope, dotted: str, position: int) -> Reach:
        """The same at a position of the scope's journal."""
        key = normal_key(dotted, scope.self_name)
        return self._bounded(scope, key, self.flow(scope).at(key, position))

    def flow(self, scope: Scope) -> BodyFlow:
        """The flow of one body, walked when it is first asked for."""
        if scope not in self._flows:
            self._flows[scope] = BodyFlow(
                self.module, scope, self.events, self.calls.set_by
            )
        return self._flows[scope]

    @cached_property
    def events(self) -> Events:
        """What each statement does to names."""
        return Events(self.module)

    def scope_at(self, node: ast.AST) -> Scope:
        """The scope that evaluates `node`; defaults of parameters belong outside."""
        if node not in self._scopes:
            self._scopes[node] = self._scope_at(node)
        return self._scopes[node]

    def _scope_at(self, node: ast.AST) -> Scope:
        """The scope that evaluates a node: a default or a decorator is evaluated outside."""
        scope = self.module.scope_of(node)
        while (
            isinstance(scope.node, (*FUNCTIONS, ast.Lambda))
            and scope.parent is not None
        ):
            above: ast.AST = node
            while self.module.parents[above] is not scope.node:
                above = self.module.parents[above]
            marks = getattr(scope.node, "decorator_list", ())
            if not isinstance(above, ast.arguments) and above not in marks:
                return scope
            node, scope = scope.node, scope.parent
        return scope

    # -- names that an expression binds itself

    def _in_comprehension(self, node: ast.AST, name: str) -> Reach | None:
        """The target of a comprehension around `node`, which hides names outside of it."""
        if name not in self.events.comprehended:
            return None
        inner: ast.AST = node
        for parent in self.module.ancestors(node):
            if (
                isinstance(parent, _COMPREHENSIONS)
                and inner is not parent.generators[0].iter
            ):
                for generator in parent.generators:
                    bound = self._bound_at(generator, name)
                    if bound is not None:
                        return Reach((bound,), certain=True, complete=True)
            if isinstance(parent, (ast.stmt, ast.Lambda)):
                return None
            if not isinstance(parent, ast.comprehension):
                inner = parent
        return None

    def _bound_at(self, node: ast.AST, name: str) -> Binding | None:
        found = (b for key, b in self.events.bindings_at(node) if key == name)
        return next(found, None)

    def _walrus(
        self, node: ast.AST, statement: ast.stmt, name: str
    ) -> Reach | None:
        """`(x := f()) and x.y`: bound earlier in the same header."""
        if node is statement or "." in name:
            return None
        earlier = [
            event.binding
            for event in self._bound_in_header(statement, node)
            if event.key == name
            and isinstance(event.binding.statement, ast.NamedExpr)
            and _ends_before(event.binding.statement, node)
        ]
        return (
            Reach((earlier[-1],), certain=True, complete=True)
            if earlier
            else None
        )

    def _bound_in_header(
        self, statement: ast.stmt, node: ast.AST
    ) -> list[Bind]:
        """What `:=` binds in the header around `node`; few have any, and all are asked often."""
        if statement not in self._named:
            events = self.flow(self.scope_at(node)).changes.headers.get(
                statement, ()
            )
            self._named[statement] = [
                event
                for event in events
                if isinstance(event, Bind)
                and isinstance(event.binding.statement, ast.NamedExpr)
            ]
        return self._named[statement]

    # -- resolution

    def _bounded(self, scope: Scope, key: str, items: Items) -> Reach:
        """The answer, or none where it would cost too much."""
        left = self.left(scope, key, items)
        if not left.entry:
            return Reach(_ordered(left.bindings), left.certain, left.complete)
        entry = self.on_entry(scope, key)
        certain = left.certain and (left.proved or entry.certain)
        found = _ordered((*left.bindings, *entry.bindings))
        return Reach(found, certain, left.complete and entry.complete)

    def on_entry(self, scope: Scope, key: str) -> Reach:
        """What a name holds where a body begins."""
        return self.entries.of(scope, key)

    def left(self, scope: Scope, key: str, items: Items) -> Left:
        """Follow loops, calls and objects back to bindings."""
        plain = [item for item in items if isinstance(item, Binding)]
        if len(plain) == len(items):
            return Left(
                tuple(reversed(plain)), True, True, entry=False, proved=False
            )
        Open.questions += 1
        try:
            return self._followed(scope, key, items)
        finally:
            Open.questions -= 1

    def _followed(self, scope: Scope, key: str, items: Items) -> Left:
        found = Found()
        seen: set[Item] = set()
        waiting = list(items)
        while waiting:
            item = waiting.pop()
            if item not in seen:
                seen.add(item)
                waiting += self._behind(scope, key, item, found)
        return found.left()

    def _behind(
        self, scope: Scope, key: str, item: Item, found: Found
    ) -> list[Item]:
        """Note what an item tells; what it stands for is to be asked next."""
        if isinstance(item, Binding):
            found.bindings[item] = None
        elif isinstance(item, Unbound):
            found.certain = False
        elif isinstance(item, Entry):
            found.entries.add(item.proved)
        elif isinstance(item, Phi):
            rounds = self.flow(scope).phis[item.loop, item.key]
            return _as_proved(rounds, item.proved)
        elif isinstance(item, OfObject):
            found.add(self._of_object(scope, key, item), item.proved)
        else:
            part = self._of_call(scope, item)
            found.add(part, item.proved)
            if part.entry:
                return _as_proved(item.before, item.proved or part.proved)
        return []

    def _of_object(self, scope: Scope, key: str, item: OfObject) -> Left:
        found = self.entry.of_object(
            item.binding, item.holder, scope, key[len(item.holder) + 1 :]
        )
        return Left(
            found.bindings,
            found.certain,
            found.complete,
            entry=False,
            proved=False,
        )

    def _of_call(self, scope: Scope, item: Called) -> Left:
        """What any of the methods that a call may run leaves in an attribute."""
        found = [
            method.reaching.left_at_exit(method.scope, item.key)
            for method in self.calls.methods(item.call, scope)
        ]
        return Left(
            tuple(b for one in found for b in one.bindings),
            all(one.certain for one in found),
            all(one.complete for one in found),
            any(one.entry for one in found) or not found,
            all(one.proved for one in found if one.entry) and bool(found),
        )

    def left_at_exit(self, scope: Scope, key: str) -> Left:
        """What a method leaves in an attribute of its object; nothing of its own where it calls
        itself.
        """
        question = (scope, key)
        if question not in self._left:
            self._left[question] = Left(
                (), True, True, entry=False, proved=False
            )
            self._left[question] = self.left(
                scope, key, self.flow(scope).at_exit(key)
            )
        return self._left[question]


def _as_proved(items: Iterable[Item], proved: bool) -> list[Item]:
    if not proved:
        return list(items)
    return [kept for item in items if (kept := proved_of(item)) is not None]


def _ordered(bindings: Iterable[Binding]) -> tuple[Binding, ...]:
    """In source order, those of other files as they come."""
    unique = list(dict.fromkeys(bindings))
    return tuple(
        sorted(unique, key=lambda b: getattr(b.statement, "lineno", 0))
    )


def _ends_before(first: ast.expr, node: ast.AST) -> bool:
    end = (first.end_lineno or 0, first.end_col_offset or 0)
    return end <= (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
