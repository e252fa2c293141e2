"""Runs a scope over sets of paths: branches with correlated conditions, loops twice, calls into
functions in sight.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from copy import copy

from amp_migrate.model.recognition import Events, Trait
from amp_migrate.model.syntax import FUNCTIONS, LOOPS, Function, shallow
from amp_migrate.protocol.budget import Budget
from amp_migrate.protocol.calls import Calls
from amp_migrate.protocol.conditions import Conditions
from amp_migrate.protocol.ends import Ends, Here, Listener
from amp_migrate.protocol.frames import Frame, place
from amp_migrate.protocol.overriding import Dispatch
from amp_migrate.protocol.paths import NOTHING, Path, Val, merged
from amp_migrate.protocol.relevance import Relevance
from amp_migrate.protocol.summaries import RETURN, Summaries
from amp_migrate.protocol.values import Evaluation, last

LIMIT = 40
"""Paths that are followed side by side; more are widened, and are no longer sure."""
_DEPTH = 12
_COUNTED = {"range", "enumerate", "tqdm", "len", "iter"}


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
        self.budget = Budget(events.program.module.text.count("\n"))
        self.entered: set[ast.AST] = set()
        self.limit = LIMIT
        self.turns = 2
        self.dropped = False
        """Whether there were more states than can be followed."""
        self._loops: dict[object, Ends] = {}
        self._arms: dict[ast.stmt, tuple[ast.stmt, ast.stmt]] = {}

    def begin(
        self, *, limit: int, turns: int, tracks: bool, optimizers: Iterable[str]
    ) -> None:
        """Start another run over a scope; nothing is remembered of the last one."""
        self.limit, self.turns = limit, turns
        self.evaluation.tracks = tracks
        self.calls.begin(optimizers)
        self.dropped = False
        self._loops.clear()

    def _merged(self, paths: list[Path]) -> list[Path]:
        found = merged(paths, self.limit)
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
            ends.next = self._merged(after.next)
        return ends

    def _statement(
        self,
        statement: ast.stmt,
        rest: list[ast.stmt],
        paths: list[Path],
        frame: Frame,
    ) -> Ends:
        if isinstance(
            statement,
            (
                *FUNCTIONS,
                ast.ClassDef,
                ast.Pass,
                ast.Import,
                ast.ImportFrom,
                ast.Global,
                ast.Nonlocal,
            ),
        ):
            return Ends(paths)
        is_compound = isinstance(
            statement,
            (ast.If, *LOOPS, ast.Try, ast.With, ast.AsyncWith, ast.Match),
        )
        if is_compound and not self.relevance.leads(statement, frame.scope):
            return Ends(
                [
                    self.evaluation.skimmed(statement, path, frame)
                    for path in paths
                ]
            )
        if isinstance(statement, ast.If):
            return self._if(statement, rest, paths, frame)
        if isinstance(statement, LOOPS):
            return self._loop(statement, paths, frame)
        if (
            isinstance(statement, ast.Try)
            or type(statement).__name__ == "TryStar"
        ):
            return self._try(statement, paths, frame)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return self._with(statement, paths, frame)
        if isinstance(statement, ast.Match):
            return self._match(statement, paths, frame)
        return self._simple(statement, paths, frame)

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
            inner = self._simple(arm, self._merged(after), frame)
            ends.leave(inner)
            ends.next += inner.next
        return ends

    def _simple(
        self, statement: ast.stmt, paths: list[Path], frame: Frame
    ) -> Ends:
        either = self._either(statement, paths, frame)
        if either is not None:
            return either
        after = self._expression(statement, paths, frame)
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            after = [
                self.evaluation.assigned(statement, path, frame)
                for path in after
            ]
        if not isinstance(statement, ast.Return):
            after = [_without_returns(path) for path in after]
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
        return (
            Ends([], breaks=after)
            if isinstance(statement, ast.Break)
            else Ends(after)
        )

    def _returned(
        self, statement: ast.Return, path: Path, frame: Frame
    ) -> Path:
        if statement.value is not None and frame.call is not None:
            value = self.evaluation.value(statement.value, path, frame)
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
            inner = self.block(link.body, self._merged(ways[True]), frame)
            ends.leave(inner)
            ends.next += inner.next
            paths = self._merged(ways[False])
            if len(link.orelse) != 1 or not isinstance(link.orelse[0], ast.If):
                break
            link, rest = link.orelse[0], []
            ends.next = self._merged(ends.next)
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
        paths = self._expression(statement.test, paths, frame)
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

    def _loop(self, loop: ast.stmt, paths: list[Path], frame: Frame) -> Ends:
        """Run a loop, once for each set of paths that leads to it."""
        states = frozenset(path.whole_key() for path in paths)
        key = (loop, frame.loops, frame.handed, self._stack(frame), states)
        if key not in self._loops:
            self._loops[key] = self._turned(loop, paths, frame)
        known = self._loops[key]
        return Ends(list(known.next), [], [], list(known.returns))

    def _stack(self, frame: Frame) -> tuple[ast.AST, ...]:
        found = []
        here: Frame | None = frame
        while here is not None:
            found.append(here.scope.node)
            here = here.caller
        return tuple(found)

    def _turned(self, loop: ast.stmt, paths: list[Path], frame: Frame) -> Ends:
        """Twice, so that what the first iteration leaves behind meets the second; never not at
        all.
        """
        assert isinstance(loop, LOOPS)
        ends, left = Ends(), []
        header = loop.test if isinstance(loop, ast.While) else loop.iter
        inside = frame.within(loop)
        binds = not isinstance(loop, ast.While) and self._binds_role(
            loop, frame
        )
        for turn in range(2 if binds else self.turns):
            if turn == 0 or isinstance(loop, ast.While):
                paths = self._expression(header, paths, frame)
            if not isinstance(loop, ast.While):
                paths = [
                    self._target(loop, turn, path, frame) for path in paths
                ]
            inner = self.block(loop.body, self._merged(paths), inside)
            ends.returns += inner.returns
            left += inner.breaks
            paths = self._merged([*inner.next, *inner.continues])
        after = (
            self.block(loop.orelse, paths, frame)
            if loop.orelse
            else Ends(paths)
        )
        ends.leave(after)
        ends.next = self._merged([*after.next, *left])
        ends.returns = self._merged(ends.returns)
        return ends

    def _target(
        self, loop: ast.For | ast.AsyncFor, turn: int, path: Path, frame: Frame
    ) -> Path:
        """Names bound by a `for`; elements of a collection keep their identity from loop
        to loop.
        """
        path = path.fork()
        counted = (
            isinstance(loop.iter, ast.Call) and last(loop.iter.func) in _COUNTED
        )
        single = isinstance(loop.target, ast.Name)
        for node in shallow(loop.target):
            own = (
                place(node, frame, path)
                if isinstance(node, (ast.Name, ast.Attribute))
                else None
            )
            if own is None:
                continue
            shared = self._is_role(node, frame) and not (
                counted and not isinstance(loop.target, ast.Tuple)
            )
            shared = shared or self._is_index(node, loop, frame)
            text = f"{ast.unparse(loop.iter)}[{turn}]" + (
                "" if single else f":{own}"
            )
            path.assign(own, Val(text=text) if shared else NOTHING)
        return path

    def _is_index(
        self, node: ast.AST, loop: ast.For | ast.AsyncFor, frame: Frame
    ) -> bool:
        """Whether each turn takes another optimizer by this name: `optimizers[name]`."""
        return isinstance(node, ast.Name) and any(
            isinstance(one, ast.Subscript)
            and isinstance(one.slice, ast.Name)
            and one.slice.id == node.id
            and self.program.effects.is_optimizer(one, frame.scope)
            for statement in loop.body
            for one in shallow(statement)
        )

    def _binds_role(self, loop: ast.For | ast.AsyncFor, frame: Frame) -> bool:
        return any(
            self._is_role(n, frame)
            for n in shallow(loop.target)
            if isinstance(n, (ast.Name, ast.Attribute))
        )

    def _is_role(self, node: ast.AST, frame: Frame) -> bool:
        assert isinstance(node, ast.expr)
        scope = frame.scope
        return (
            self.program.effects.is_optimizer(node, scope)
            or self.events.is_scaler(node, scope)
            or self.program.values.is_model(node, scope)
        )

    def _try(
        self, statement: ast.stmt, paths: list[Path], frame: Frame
    ) -> Ends:
        """Handlers run from the state in which the `try` began: what failed did not happen."""
        assert (
            isinstance(statement, ast.Try)
            or type(statement).__name__ == "TryStar"
        )
        ends = self.block(statement.body, paths, frame)  # type: ignore[attr-defined]
        ends = self._then(ends, statement.orelse, frame)  # type: ignore[attr-defined]
        for handler in statement.handlers:  # type: ignore[attr-defined]
            inner = self.block(handler.body, paths, frame)
            ends.leave(inner)
            ends.next += inner.next
        return self._then(ends, statement.finalbody, frame)  # type: ignore[attr-defined]

    def _then(self, ends: Ends, block: list[ast.stmt], frame: Frame) -> Ends:
        if not block:
            return ends
        inner = self.block(block, self._merged(ends.next), frame)
        inner.leave(ends)
        return inner

    def _with(
        self,
        statement: ast.With | ast.AsyncWith,
        paths: list[Path],
        frame: Frame,
    ) -> Ends:
        for item in statement.items:
            paths = self._expression(item.context_expr, paths, frame)
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
        paths = self._expression(statement.subject, paths, frame)
        for case in statement.cases:
            inner = self.block(case.body, paths, frame)
            ends.leave(inner)
            ends.next += inner.next
        ends.next += paths
        return ends

    # -- expressions

    def _expression(
        self, node: ast.AST, paths: list[Path], frame: Frame
    ) -> list[Path]:
        """Run the events in an expression, or in a simple statement, in the order of evaluation."""
        for inner in self.relevance.nodes(node, frame.scope):
            after: list[Path] = []
            for path in paths:
                after += self._event(inner, path, frame)
            paths = self._merged(after) if len(after) > len(paths) else after
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
        return self.listener.on(Here(node, path, frame))

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
            after = self._merged(
                [self.calls.leave(entry, one) for one in leaving]
            )
            self.calls.summaries.put(entry.key, after)
        return [self.calls.back(entry, one) for one in after]


def _without_returns(path: Path) -> Path:
    """What calls have returned is of no use behind their statement."""
    old = [key for key in path.env if key.startswith(RETURN)]
    if not old:
        return path
    path = path.fork()
    for key in old:
        del path.env[key]
    return path
