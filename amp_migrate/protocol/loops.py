"""A loop on a path: turns, and what its names stand for in each."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.steps.recognition import Trait
from amp_migrate.model.syntax.module import LOOPS, Scope, shallow
from amp_migrate.model.syntax.queries import names_in, names_stored, nodes_in
from amp_migrate.model.values.single_elements import holds_one
from amp_migrate.protocol.ends import Ends
from amp_migrate.protocol.frames import Frame, identity, place
from amp_migrate.protocol.paths import NOTHING, Path, Val
from amp_migrate.protocol.values import last

if TYPE_CHECKING:
    from amp_migrate.protocol.exploration import Explorer

_MOST_LISTED = 6
_HOPS = 2
_COUNTED = {"range", "enumerate", "tqdm", "len", "iter"}


def _gone_through(loop: ast.For | ast.AsyncFor, name: ast.AST) -> ast.expr:
    """What a name of the target takes its values from: `optimizers` for `optimizer` of
    `for optimizer, schedule in zip(optimizers, schedules)`.
    """
    call, target = loop.iter, loop.target
    if not isinstance(call, ast.Call) or not isinstance(target, ast.Tuple):
        return call
    places = [at for at, one in enumerate(target.elts) if one is name]
    given = {"zip": call.args, "enumerate": [call, *call.args[:1]]}
    parts = given.get(last(call.func), [])
    is_one = len(places) == 1 and places[0] < len(parts)
    return parts[places[0]] if is_one else call


class Loops:
    """Runs loops, each once for every set of paths that leads to it."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.events = explorer.events
        self.program = explorer.program
        self._known: dict[object, Ends] = {}
        self._indices: dict[ast.AST, bool] = {}
        self._single: dict[ast.AST, bool] = {}

    def begin(self) -> None:
        """Start another run over a scope; nothing is remembered of the last one."""
        self._known.clear()

    def run(self, loop: ast.stmt, paths: list[Path], frame: Frame) -> Ends:
        """Run a loop, once for each set of paths that leads to it."""
        states = frozenset(path.whole_key() for path in paths)
        key = (loop, frame.loops, frame.handed, self._stack(frame), states)
        if key not in self._known:
            self._known[key] = self._turned(loop, paths, frame)
        known = self._known[key]
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
        listed, where = self._listed(loop, frame)
        for turn in range(len(listed) or self._turns(loop, frame)):
            if turn == 0 or isinstance(loop, ast.While):
                paths = self.explorer.expression(header, paths, frame)
            if listed:
                paths = [
                    self._standing_for(loop, listed[turn], path, frame, where)
                    for path in paths
                ]
            elif not isinstance(loop, ast.While):
                paths = [
                    self._target(loop, turn, path, frame) for path in paths
                ]
            inner = self.explorer.block(
                loop.body, self.explorer.merged(paths), inside
            )
            ends.returns += inner.returns
            left += inner.breaks
            paths = self.explorer.merged([*inner.next, *inner.continues])
        after = (
            self.explorer.block(loop.orelse, paths, frame)
            if loop.orelse
            else Ends(paths)
        )
        ends.leave(after)
        ends.next = self.explorer.merged([*after.next, *left])
        ends.returns = self.explorer.merged(ends.returns)
        return ends

    def _turns(self, loop: ast.stmt, frame: Frame) -> int:
        """Two where each has another optimizer or model, unless there is but one."""
        if isinstance(loop, (ast.For, ast.AsyncFor)) and self._binds_role(
            loop, frame
        ):
            return 1 if self._is_single(loop.iter, frame) else 2
        return 1 if self._runs_hooks(loop, frame) else self.explorer.turns

    def _runs_hooks(self, loop: ast.stmt, frame: Frame) -> bool:
        """Whether a loop runs one hook after the other by a name, one of which uses the scaler:
        each of them has its turn once.
        """
        if not isinstance(loop, (ast.For, ast.AsyncFor)):
            return False
        return any(
            Trait.SCALER in self.events.of_function(method)
            for statement in loop.body
            for call in shallow(statement)
            if isinstance(call, ast.Call)
            and self.events.what(call, frame.scope) is None
            for method in self.events.by_name(call, frame.scope)
        )

    def _listed(
        self, loop: ast.stmt, frame: Frame
    ) -> tuple[list[ast.expr], Frame]:
        """What `for optimizer in (first, second)` goes through, one after the other, and where that
        is written.
        """
        if not isinstance(loop, (ast.For, ast.AsyncFor)) or not isinstance(
            loop.target, ast.Name
        ):
            return [], frame
        shown, where = self._shown(loop.iter, frame)
        are_named = all(
            isinstance(one, (ast.Name, ast.Attribute)) for one in shown
        )
        plays = are_named and any(self._is_role(one, where) for one in shown)
        return (shown if plays and len(shown) <= _MOST_LISTED else []), where

    def _shown(
        self, listed: ast.expr, frame: Frame
    ) -> tuple[list[ast.expr], Frame]:
        """The elements of a display, be it what a caller gives for a parameter."""
        while isinstance(listed, ast.Name):
            held = frame.scope.bindings.get(listed.id, ())
            is_given = len(held) == 1 and held[0].how == "parameter"
            if not is_given or frame.call is None or frame.caller is None:
                break
            scope, bound = frame.scope, frame.scope.takes_receiver
            given = argument(frame.call, scope, listed.id, bound)
            if given is None:
                break
            listed, frame = given, frame.caller
        if isinstance(listed, (ast.Tuple, ast.List)):
            return listed.elts, frame
        return [], frame

    def _standing_for(
        self,
        loop: ast.stmt,
        listed: ast.expr,
        path: Path,
        frame: Frame,
        where: Frame,
    ) -> Path:
        """A path on which the loop's name is another name for one of several."""
        assert isinstance(loop, (ast.For, ast.AsyncFor))
        path = path.fork()
        own = place(loop.target, frame, path)
        if own is not None:
            path.assign(own, self.explorer.evaluation.held(listed, path, where))
        return path

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
            whole = _gone_through(loop, node)
            alone = single or whole is not loop.iter
            listed = identity(whole, frame, path) or ast.unparse(whole)
            text = f"{listed}[{turn}]" + ("" if alone else f":{own}")
            path.assign(own, Val(text=text) if shared else NOTHING)
        return path

    def _is_index(
        self, node: ast.AST, loop: ast.For | ast.AsyncFor, frame: Frame
    ) -> bool:
        """Whether each turn takes another optimizer by this name: `optimizers[name]`."""
        if node not in self._indices:
            self._indices[node] = self._finds_index(node, loop, frame)
        return self._indices[node]

    def _finds_index(
        self, node: ast.AST, loop: ast.For | ast.AsyncFor, frame: Frame
    ) -> bool:
        return isinstance(node, ast.Name) and any(
            self._takes_by(statement, node.id, frame.scope, _HOPS)
            for statement in loop.body
        )

    def _takes_by(
        self, code: ast.AST, name: str, scope: Scope, hops: int
    ) -> bool:
        """Whether code takes an optimizer by a name, itself or in a function that is handed it."""
        for one in shallow(code):
            if isinstance(one, ast.Subscript):
                is_index = isinstance(one.slice, ast.Name) and (
                    one.slice.id == name
                )
                if is_index and self.program.effects.is_optimizer(one, scope):
                    return True
            elif isinstance(one, ast.Call) and hops:
                if self._hands_index(one, name, scope, hops - 1):
                    return True
        return False

    def _hands_index(
        self, call: ast.Call, name: str, scope: Scope, hops: int
    ) -> bool:
        given = [*call.args, *(one.value for one in call.keywords)]
        if not any(
            isinstance(one, ast.Name) and one.id == name for one in given
        ):
            return False
        function = self.program.values.callee(call, scope)
        if function is None:
            return False
        inner = self.program.scope(function)
        bound = inner.takes_receiver
        return any(
            isinstance(handed, ast.Name)
            and handed.id == name
            and self._takes_by(statement, one.arg, inner, hops)
            for one in inner.parameters()
            for handed in (argument(call, inner, one.arg, bound),)
            for statement in function.body
        )

    def _is_single(self, listed: ast.expr, frame: Frame) -> bool:
        """Whether a loop over optimizers or models has one turn."""
        if listed not in self._single:
            self._single[listed] = holds_one(self.program, listed, frame.scope)
        return self._single[listed]

    def _binds_role(self, loop: ast.For | ast.AsyncFor, frame: Frame) -> bool:
        return any(
            self._is_role(n, frame) or self._is_index(n, loop, frame)
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


def is_same_each_turn(loop: ast.AST, node: ast.AST) -> bool:
    """Whether what a node of a loop names is bound outside of it; a helper's names are not its
    caller's.
    """
    is_inside = any(one is node for one in nodes_in(loop))
    return is_inside and not names_in(node) & names_stored(loop)
