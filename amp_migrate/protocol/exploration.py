"""Runs a scope over sets of paths: branches with correlated conditions, loops twice, calls into
functions in sight.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable
from copy import copy

from amp_migrate.model.budget import Budget, for_paths
from amp_migrate.model.steps.recognition import Events, Trait
from amp_migrate.model.syntax.module import FUNCTIONS, LOOPS, Function
from amp_migrate.protocol.calls import Calls
from amp_migrate.protocol.choices import Choices
from amp_migrate.protocol.comprehensions import Comprehensions
from amp_migrate.protocol.conditions import Conditions
from amp_migrate.protocol.ends import Ends, Here, Listener
from amp_migrate.protocol.frames import Frame, place
from amp_migrate.protocol.loops import Loops
from amp_migrate.protocol.overriding import Dispatch
from amp_migrate.protocol.paths import NOTHING, Path
from amp_migrate.protocol.paths import merged as joined
from amp_migrate.protocol.relevance import Relevance
from amp_migrate.protocol.returns import assigned, returned, without_returns
from amp_migrate.protocol.summaries import RETURN, Summaries
from amp_migrate.protocol.tries import is_try, is_unscaling
from amp_migrate.protocol.values import Evaluation

LIMIT = 80
"""Paths that are followed side by side; more are widened, and are no longer sure."""
_DEPTH = 12
_WITHOUT_EVENTS = (
    *FUNCTIONS,
    ast.ClassDef,
    ast.Pass,
    ast.Import,
    ast.ImportFrom,
    ast.Global,
    ast.Nonlocal,
)
_COMPOUND = (ast.If, *LOOPS, ast.Try, ast.With, ast.AsyncWith, ast.Match)


class Explorer:
    """Follows the paths of one module and tells a listener of the events on them."""

    def __init__(self, events: Events, listener: Listener) -> None:
        self.events = events
        self.program = events.program
        self.listener = listener
        self.conditions = Conditions(events)
        self.evaluation = Evaluation(events, self.conditions)
        self.relevance = Relevance(events)
        self.dispatch = Dispatch(events)
        self.calls = Calls(self.evaluation, Summaries(self.relevance))
        self.budget = Budget(for_paths(events.program.module.text))
        self.entered: set[ast.AST] = set()
        self.limit = LIMIT
        self.turns = 2
        self.dropped = False
        """Whether there were more states than can be followed."""
        self.loops = Loops(self)
        self.comprehensions = Comprehensions()
        self.choices = Choices(events.program, self.evaluation.cuts)
        self._arms: dict[ast.stmt, tuple[ast.stmt, ast.stmt]] = {}

    def begin(
        self, *, limit: int, turns: int, tracks: bool, optimizers: Iterable[str]
    ) -> None:
        """Start another run over a scope; nothing is remembered of the last one."""
        self.limit, self.turns = limit, turns
        self.evaluation.tracks = tracks
        self.calls.begin(optimizers)
        self.dropped = False
        self.loops.begin()

    def merged(self, paths: list[Path]) -> list[Path]:
        """As many paths as are followed, those that are alike as one."""
        found = joined(paths, self.limit)
        if len(found) > self.limit:
            self.dropped = True
        return found[: self.limit]

    def block(
        self, statements: list[ast.stmt], paths: list[Path], frame: Frame
    ) -> Ends:
        """Run a list of statements on each path."""
        ends = Ends(paths)
        for index, statement in enumerate(statements):
            if not ends.next:
                break
            if self.relevance.idle(
                statement, frame.scope, tracks=self.evaluation.tracks
            ):
                continue
            self.budget.spend(len(ends.next))
            after = self._statement(
                statement, statements[index + 1 :], ends.next, frame
            )
            ends.leave(after)
            ends.next = self.merged(after.next)
        return ends

    def _statement(
        self,
        statement: ast.stmt,
        rest: list[ast.stmt],
        paths: list[Path],
        frame: Frame,
    ) -> Ends:
        if isinstance(statement, _WITHOUT_EVENTS):
            return Ends(paths)
        is_compound = isinstance(statement, _COMPOUND)
        if is_compound and self._is_skimmed(statement, frame):
            skim = self.evaluation.skimmed
            return Ends([skim(statement, path, frame) for path in paths])
        match statement:
            case ast.If():
                return self._if(statement, rest, paths, frame)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self.loops.run(statement, paths, frame)
            case ast.With() | ast.AsyncWith():
                return self._with(statement, paths, frame)
            case ast.Match():
                return self._match(statement, paths, frame)
        if is_try(statement):
            return self._try(statement, paths, frame)
        loop = self.comprehensions.loop(statement)
        if loop is not None and self.relevance.nodes(loop.body[0], frame.scope):
            return self.loops.run(loop, paths, frame)
        return self._simple(statement, paths, frame)

    def _is_skimmed(self, statement: ast.stmt, frame: Frame) -> bool:
        """Whether only what a compound statement binds matters; a region's helpers are followed
        where it is asked which models a loss comes from.
        """
        if self.relevance.leads(statement, frame.scope):
            return False
        tracks = self.evaluation.tracks
        if tracks and self.choices.differ(statement, frame.scope):
            return False
        is_region = isinstance(statement, (ast.With, ast.AsyncWith))
        tracks = tracks and is_region
        return not tracks or self.evaluation.cuts(statement)  # type: ignore[arg-type]

    def _either(
        self, statement: ast.stmt, paths: list[Path], frame: Frame
    ) -> Ends | None:
        """`x = a if test else b` with events in an arm is an `if` of two statements."""
        if not isinstance(
            statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)
        ):
            return None
        choice = statement.value
        if not isinstance(choice, ast.IfExp) or not self.relevance.nodes(
            choice, frame.scope
        ):
            return None
        if statement not in self._arms:
            arms = copy(statement), copy(statement)
            arms[0].value, arms[1].value = choice.body, choice.orelse
            self._arms[statement] = arms
        ends = Ends()
        for way, arm in zip((True, False), self._arms[statement], strict=True):
            after = [
                one
                for path in paths
                for went, one in self.conditions.branch(
                    choice.test, path, frame
                )
                if went is way
            ]
            inner = self._simple(arm, self.merged(after), frame)
            ends.leave(inner)
            ends.next += inner.next
        return ends

    def _simple(
        self, statement: ast.stmt, paths: list[Path], frame: Frame
    ) -> Ends:
        either = self._either(statement, paths, frame)
        if either is not None:
            return either
        after = self.expression(statement, paths, frame)
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            after = [
                assigned(statement, self.evaluation, path, frame)
                for path in after
            ]
        if not isinstance(statement, ast.Return):
            after = [without_returns(path) for path in after]
        if isinstance(statement, ast.Expr) and Trait.END in self.events.of_node(
            statement, frame.scope
        ):
            return Ends([])
        if isinstance(statement, ast.Raise):
            return Ends([])
        if isinstance(statement, (ast.Return, ast.Continue, ast.Break)):
            after = [path.fork() for path in after]
            for path in after:
                self.listener.left(statement, path)
        if isinstance(statement, ast.Return):
            return Ends(
                [],
                returns=[
                    self._returned(statement, path, frame) for path in after
                ],
            )
        if isinstance(statement, ast.Continue):
            return Ends([], continues=after)
        is_break = isinstance(statement, ast.Break)
        return Ends([], breaks=after) if is_break else Ends(after)

    def _returned(
        self, statement: ast.Return, path: Path, frame: Frame
    ) -> Path:
        if statement.value is not None and frame.call is not None:
            value = returned(statement.value, self.evaluation, path, frame)
            if value is not NOTHING:
                path.env[RETURN] = value
        return path

    def _if(
        self,
        statement: ast.If,
        rest: list[ast.stmt],
        paths: list[Path],
        frame: Frame,
    ) -> Ends:
        """A chain of `elif` is followed from link to link, not link in link."""
        ends = Ends()
        link = statement
        while True:
            ways = self._ways(link, rest, paths, frame)
            inner = self.block(link.body, self.merged(ways[True]), frame)
            ends.leave(inner)
            ends.next += inner.next
            paths = self.merged(ways[False])
            if len(link.orelse) != 1 or not isinstance(link.orelse[0], ast.If):
                break
            link, rest = link.orelse[0], []
            ends.next = self.merged(ends.next)
        inner = self.block(link.orelse, paths, frame)
        ends.leave(inner)
        ends.next += inner.next
        return ends

    def _ways(
        self,
        statement: ast.If,
        rest: list[ast.stmt],
        paths: list[Path],
        frame: Frame,
    ) -> dict[bool, list[Path]]:
        """The paths on which the condition holds, and those on which it does not."""
        paths = self.expression(statement.test, paths, frame)
        switched = self.conditions.switched(statement, rest, frame)
        ways: dict[bool, list[Path]] = {True: [], False: []}
        self.budget.spend(len(paths))
        for path in paths:
            for way, after in self.conditions.branch(
                statement.test, path, frame
            ):
                decides = switched is not None and self.conditions.may_switch(
                    statement.test, path, frame
                )
                known = (
                    self.conditions.decide(after, on=way is switched)
                    if decides
                    else after
                )
                if known is not None:
                    ways[way].append(known)
        return ways

    def _try(
        self, statement: ast.stmt, paths: list[Path], frame: Frame
    ) -> Ends:
        """Handlers run from where the `try` began, or behind an `unscale_` that comes first."""
        assert is_try(statement)
        body = statement.body  # type: ignore[attr-defined]
        first = [*itertools.takewhile(is_unscaling, body)]
        if first:
            paths = self.merged(self.block(first, paths, frame).next)
        ends = self.block(body[len(first) :], paths, frame)
        ends = self._then(ends, statement.orelse, frame)  # type: ignore[attr-defined]
        for handler in statement.handlers:  # type: ignore[attr-defined]
            inner = self.block(handler.body, paths, frame)
            ends.leave(inner)
            ends.next += inner.next
        return self._then(ends, statement.finalbody, frame)  # type: ignore[attr-defined]

    def _then(self, ends: Ends, block: list[ast.stmt], frame: Frame) -> Ends:
        if not block:
            return ends
        inner = self.block(block, self.merged(ends.next), frame)
        inner.leave(ends)
        return inner

    def _with(
        self,
        statement: ast.With | ast.AsyncWith,
        paths: list[Path],
        frame: Frame,
    ) -> Ends:
        for item in statement.items:
            paths = self.expression(item.context_expr, paths, frame)
            if item.optional_vars is not None:
                own = [
                    (path.fork(), place(item.optional_vars, frame, path))
                    for path in paths
                ]
                paths = [path for path, _ in own]
                for path, name in own:
                    if name is not None:
                        path.assign(name, NOTHING)
        return self.block(statement.body, paths, frame)

    def _match(
        self, statement: ast.Match, paths: list[Path], frame: Frame
    ) -> Ends:
        ends = Ends()
        paths = self.expression(statement.subject, paths, frame)
        for case in statement.cases:
            inner = self.block(case.body, paths, frame)
            ends.leave(inner)
            ends.next += inner.next
        ends.next += paths
        return ends

    # -- expressions

    def expression(
        self, node: ast.AST, paths: list[Path], frame: Frame
    ) -> list[Path]:
        """Run the events in an expression, or in a simple statement, in the order of evaluation."""
        for inner in self.relevance.nodes(node, frame.scope):
            after: list[Path] = []
            for path in paths:
                after += self._event(inner, path, frame)
            paths = self.merged(after) if len(after) > len(paths) else after
        return paths

    def _event(self, node: ast.AST, path: Path, frame: Frame) -> list[Path]:
        self.budget.spend()
        if (
            isinstance(node, ast.Call)
            and self.events.what(node, frame.scope) is None
        ):
            function = self.dispatch.callee(node, frame.scope)
            if function is None and self.evaluation.tracks:
                function = self.relevance.computes(node, frame.scope)
            if (
                function is not None
                and not frame.runs(function)
                and frame.depth < _DEPTH
            ):
                return self._called(node, function, path, frame)
            if function is None and self.events.by_name(node, frame.scope):
                return self._called_by_name(node, path, frame)
        return self.listener.on(Here(node, path, frame))

    def _called_by_name(
        self, call: ast.Call, path: Path, frame: Frame
    ) -> list[Path]:
        """Each method of the name that the path tells may run, or none; the one that uses the
        scaler does.
        """
        methods = self.calls.named(call, path, frame)
        if methods is None or frame.depth >= _DEPTH:
            return self.listener.on(Here(call, path, frame))
        is_sure = any(
            self.events.of_function(one) & Trait.SCALER for one in methods
        )
        after = [] if is_sure else [path]
        for one in methods:
            if not frame.runs(one):
                after += self._called(call, one, path, frame)
        return after or [path]

    def _called(
        self, call: ast.Call, function: Function, path: Path, frame: Frame
    ) -> list[Path]:
        """The paths behind a call, from an earlier run of the function where nothing that matters
        to it has changed since.
        """
        self.entered.add(function)
        entry = self.calls.entry(call, function, path, frame)
        after = self.calls.summaries.get(entry.key)
        if after is None:
            ends = self.block(function.body, [entry.path], entry.frame)
            leaving = [*ends.next, *ends.returns]
            after = self.merged(
                [self.calls.leave(entry, one) for one in leaving]
            )
            self.calls.summaries.put(entry.key, after)
        return [self.calls.back(entry, one) for one in after]
