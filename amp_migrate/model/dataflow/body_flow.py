"""The definitions that may reach each statement of one body, in one pass over it.

The body of a module, function or class is walked once in the order of execution, with one set of
possible definitions for each name. Every change is written to a journal, so that the set at any
place is found by its position there, and a state is nothing but a position. Branches are walked
one after the other from the same state and joined. What reaches the head of a loop from its end is
left as a `Phi`, which is looked up when it is asked for; so nested loops cost one pass as well.
After mypy's `partially_defined.py`: sets joined over statements, no graph of basic blocks.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import ClassVar

from amp_migrate.model.dataflow.body_changes import BodyChanges, SetBy
from amp_migrate.model.dataflow.body_definitions import BodyDefinitions
from amp_migrate.model.dataflow.body_events import (
    Events,
    is_irrefutable,
    parameters_of,
    reads_ahead,
    truth_of,
)
from amp_migrate.model.dataflow.run_ends import ends_run
from amp_migrate.model.naming.definitions import (
    UNBOUND,
    Items,
    Phi,
)
from amp_migrate.model.syntax.module import LOOPS, Module, Scope
from amp_migrate.records import NamedTuple

_TRIES = (ast.Try, ast.TryStar) if hasattr(ast, "TryStar") else (ast.Try,)
_SUPPRESSES = frozenset({"contextlib.suppress", "pytest.raises"})


class BodyFlow:
    """The flow of definitions through the body of one scope."""

    def __init__(
        self, module: Module, scope: Scope, events: Events, set_by: SetBy
    ) -> None:
        """`set_by` tells which attributes of `self` a call of one of its methods may set."""
        self.module = module
        self.scope = scope
        self.events = events
        self.begins: dict[ast.stmt, int] = {}
        self.heads: dict[ast.stmt, int] = {}
        """Where the test of a `while` is evaluated, after each round as well."""
        self.ends: dict[ast.stmt, int] = {}
        self.exits: list[int] = []
        """Positions at which the body is left without an exception."""
        self.phis: dict[tuple[ast.stmt, str], Items] = {}
        self._dead = False
        self._loops: list[_Loop] = []
        self.changes = BodyChanges(scope, events, set_by)
        self._definitions = BodyDefinitions(self.changes)
        self.journal = self._definitions.journal
        self._run()

    # -- questions

    def at(self, key: str, position: int) -> Items:
        """What may be in `key` at a position of the journal."""
        return self._definitions.at(key, position)

    def at_exit(self, key: str) -> Items:
        """What may be in `key` where the body is left; nothing where it never is."""
        return frozenset().union(
            *(self.at(key, position) for position in self.exits)
        )

    def will_read(self, statement: ast.stmt, key: str, *, after: bool) -> bool:
        """Whether `key` is read in any case by a statement that follows in the same block."""
        block = self.module.block_lists[statement]
        first = next(i for i, one in enumerate(block) if one is statement)
        coming = block[first + 1 if after else first :]
        return reads_ahead(
            [(one, self.changes.headers.get(one, [])) for one in coming], key
        )

    # -- the pass

    def _run(self) -> None:
        for argument in parameters_of(self.scope):
            for name, binding in self.events.bindings_at(argument):
                self.journal.set(name, frozenset((binding,)))
        self._block(self.scope.body)
        if not self._dead:
            self.exits.append(self.journal.position)

    def _block(self, block: list[ast.stmt]) -> None:
        """Walk the statements of a block in their order, and note where each begins and ends."""
        for statement in block:
            self.begins[statement] = self.journal.position
            handler = self._handlers.get(type(statement))
            if handler is None:
                self._simple(statement)
            else:
                handler(self, statement)
            self.ends[statement] = self.journal.position

    def _join(self, positions: list[int], since: int) -> None:
        self._dead = not positions
        if positions:
            self.journal.join(positions, since)

    def _position(self) -> list[int]:
        """Where a branch has come out, if it does."""
        return [] if self._dead else [self.journal.position]

    # -- statements

    def _simple(self, statement: ast.stmt) -> None:
        self._definitions.apply(self.changes.headers[statement])
        if isinstance(statement, ast.Expr) and ends_run(
            self.module, statement.value
        ):
            self._dead = True

    def _assert(self, statement: ast.stmt) -> None:
        assert isinstance(statement, ast.Assert)
        self._definitions.apply(self.changes.headers[statement])
        self._dead |= truth_of(statement.test) is False

    def _return(self, statement: ast.stmt) -> None:
        self._definitions.apply(self.changes.headers[statement])
        if isinstance(statement, ast.Return) and not self._dead:
            self.exits.append(self.journal.position)
        self._dead = True

    def _jump(self, statement: ast.stmt) -> None:
        if self._loops and not self._dead:
            loop = self._loops[-1]
            found = (
                loop.breaks
                if isinstance(statement, ast.Break)
                else loop.continues
            )
            found.append(self.journal.position)
        self._dead = True

    def _if(self, statement: ast.stmt) -> None:
        """An `if` with its `elif`s, which are as many as the author likes: no recursion."""
        since, outs = self.journal.position, list[int]()
        here: list[ast.stmt] = [statement]
        chain: list[ast.If] = []
        while len(here) == 1 and isinstance(here[0], ast.If):
            branch = here[0]
            if chain:
                chain.append(branch)
                self.begins[branch] = self.journal.position
            else:
                chain = [branch]
            self._definitions.apply(self.changes.headers[branch])
            start, dead, truth = (
                self.journal.position,
                self._dead,
                truth_of(branch.test),
            )
            self._dead = dead or truth is False
            self._block(branch.body)
            outs += self._position()
            self.journal.goto(start, start)
            self._dead = dead or truth is True
            here = branch.orelse
        self._block(here)
        self._join(outs + self._position(), since)
        for branch in chain:
            self.ends[branch] = self.journal.position

    def _loop(self, statement: ast.stmt) -> None:
        assert isinstance(statement, LOOPS)
        endless = (
            isinstance(statement, ast.While)
            and truth_of(statement.test) is True
        )
        if not isinstance(statement, ast.While):
            self._definitions.apply(self.changes.headers[statement])
        since, dead = self.journal.position, self._dead
        keys = self.changes.in_loop(statement)
        before = {key: self.journal.get(key) for key in keys}
        for key in keys:
            self.journal.set(key, frozenset((Phi(statement, key),)))
        self.heads[statement] = self.journal.position
        if isinstance(statement, ast.While):
            self._definitions.apply(self.changes.headers[statement])
        head = self.journal.position
        self._loops.append(_Loop([], []))
        self._definitions.apply(
            self.changes.opening(statement)
            if not isinstance(statement, ast.While)
            else ()
        )
        self._block(statement.body)
        loop = self._loops.pop()
        back = loop.continues + self._position()
        for key in keys:
            rounds = (self.journal.at(key, position) for position in back)
            self.phis[statement, key] = before[key].union(*rounds)
        self.journal.goto(head, since)
        self._dead = dead or endless
        self._block(statement.orelse)
        self._join(loop.breaks + self._position(), since)

    def _with(self, statement: ast.stmt) -> None:
        assert isinstance(statement, (ast.With, ast.AsyncWith))
        self._definitions.apply(self.changes.headers[statement])
        since = self.journal.position
        self._block(statement.body)
        made = (
            i.context_expr
            for i in statement.items
            if isinstance(i.context_expr, ast.Call)
        )
        if any(
            self.module.canonical(call.func) in _SUPPRESSES for call in made
        ):
            outs, dead = self._position(), self._dead
            self.journal.anywhere(since, self.journal.position)
            self._dead = False
            self._join(outs + self._position(), since)
            self._dead |= dead

    def _try(self, statement: ast.stmt) -> None:
        assert isinstance(statement, _TRIES)
        since, exits = self.journal.position, len(self.exits)
        jumps = [
            (loop, len(loop.breaks), len(loop.continues))
            for loop in self._loops
        ]
        dead = self._dead
        self._block(statement.body)
        raised = self.journal.position
        self._block(statement.orelse)
        outs = self._position()
        for handler in statement.handlers:
            self._handle(handler, since, raised)
            outs += self._position()
        self._join(outs, since)
        if statement.finalbody:
            self._finally(statement.finalbody, outs, since)
            for loop, breaks, continues in jumps:
                self._through(statement.finalbody, loop.breaks, breaks, since)
                self._through(
                    statement.finalbody, loop.continues, continues, since
                )
            self._through(statement.finalbody, self.exits, exits, since)
        self._dead |= dead

    def _handle(
        self, handler: ast.ExceptHandler, since: int, raised: int
    ) -> None:
        """A handler sees what any part of the `try` may have left."""
        self.journal.anywhere(since, raised)
        self._dead = False
        if handler.type is not None:
            self._definitions.apply(
                self.events.expression(handler.type, self.scope.self_name)
            )
        self._definitions.apply(self.changes.opening(handler))
        self._block(handler.body)
        if handler.name and not self._dead:
            self._definitions.assign(handler.name, UNBOUND)

    def _finally(
        self, block: list[ast.stmt], outs: list[int], since: int
    ) -> None:
        """The block runs after an exception too, so in it anything may hold; behind it, what
        came out regularly does, and what the block itself has set.
        """
        regular = self.journal.position
        self.journal.anywhere(since, regular)
        self._dead = False
        first = self.journal.position
        self._block(block)
        if self._dead or not outs:
            self._dead = True
            return
        changed = self.journal.changed(first)
        self.journal.goto_but(regular, since, changed)

    def _through(
        self,
        block: list[ast.stmt],
        positions: list[int],
        first: int,
        since: int,
    ) -> None:
        """Jumps out of a `try` run its `finally`: what that sets holds at their ends."""
        here, last = self.journal.position, self.ends[block[-1]]
        changed = self.journal.changed(self.begins[block[0]], last)
        for index in range(first, len(positions)) if changed else ():
            self.journal.goto(last, here)
            self.journal.goto_but(positions[index], since, changed)
            positions[index] = self.journal.position
        self.journal.goto(here, here)

    def _match(self, statement: ast.stmt) -> None:
        assert isinstance(statement, ast.Match)
        self._definitions.apply(self.changes.headers[statement])
        since, outs = self.journal.position, list[int]()
        exhaustive = False
        for case in statement.cases:
            self.journal.goto(since, since)
            dead = self._dead
            for node in ast.walk(case.pattern):
                self._definitions.apply(
                    self.events.bound(node, self.scope.self_name)
                )
            self._block(case.body)
            outs += self._position()
            self._dead = dead
            exhaustive |= case.guard is None and is_irrefutable(case.pattern)
        self.journal.goto(since, since)
        self._dead |= exhaustive
        self._join(outs + self._position(), since)

    _handlers: ClassVar[
        dict[type[ast.stmt], Callable[[BodyFlow, ast.stmt], None]]
    ] = {
        ast.Assert: _assert,
        ast.Return: _return,
        ast.Raise: _return,
        ast.Break: _jump,
        ast.Continue: _jump,
        ast.If: _if,
        ast.For: _loop,
        ast.AsyncFor: _loop,
        ast.While: _loop,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Match: _match,
        **dict.fromkeys(_TRIES, _try),
    }


class _Loop(NamedTuple):
    """A loop that is being walked: the positions of its jumps."""

    breaks: list[int]
    continues: list[int]
