"""Runs a scope over sets of paths: branches with correlated conditions, loops twice, calls into functions in sight."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from amp_migrate.model.calls import argument
from amp_migrate.model.evaluation import Evaluation, last
from amp_migrate.model.events import EVENTS, Events, Trait
from amp_migrate.model.paths import NOTHING, Frame, Path, Val, identity, merged, place
from amp_migrate.model.relevance import Relevance
from amp_migrate.model.syntax import FUNCTIONS, LOOPS, Function, Scope

LIMIT = 40
"""Paths that are followed side by side; more are dropped, which can only miss a mistake."""
_DEPTH = 5
_COUNTED = {"range", "enumerate", "tqdm", "len", "iter"}


@dataclass
class Ends:
    """Where the paths through a block lead."""

    next: list[Path] = field(default_factory=list)
    breaks: list[Path] = field(default_factory=list)
    continues: list[Path] = field(default_factory=list)
    returns: list[Path] = field(default_factory=list)

    def leave(self, other: Ends) -> None:
        """Take over the ends of an inner block that leave this one."""
        self.breaks += other.breaks
        self.continues += other.continues
        self.returns += other.returns


Handler = Callable[[ast.AST, Path, Frame], "list[Path]"]


class Executor(Evaluation):
    """Follows the paths of one module; `handle` is told of every event and answers with the paths after it."""

    def __init__(self, events: Events, handle: Handler, jumped: Callable[[ast.stmt, Path], None]) -> None:
        super().__init__(events)
        self.relevance = Relevance(events)
        self.handle = handle
        self.jumped = jumped
        self.entered: set[ast.AST] = set()
        self.limit = LIMIT
        self.turns = 2

    def block(self, statements: list[ast.stmt], paths: list[Path], frame: Frame) -> Ends:
        """Run a list of statements on each path."""
        ends = Ends(paths)
        for index, statement in enumerate(statements):
            if not ends.next:
                break
            if self.relevance.idle(statement, frame.scope, tracks=self.tracks):
                continue
            after = self._statement(statement, statements[index + 1 :], ends.next, frame)
            ends.leave(after)
            ends.next = merged(after.next, self.limit)
        return ends

    def _statement(self, statement: ast.stmt, rest: list[ast.stmt], paths: list[Path], frame: Frame) -> Ends:
        if isinstance(
            statement, (*FUNCTIONS, ast.ClassDef, ast.Pass, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
        ):
            return Ends(paths)
        is_compound = isinstance(statement, (ast.If, *LOOPS, ast.Try, ast.With, ast.AsyncWith, ast.Match))
        if is_compound and not self.relevance.leads(statement, frame.scope):
            return Ends([self._skimmed(statement, path, frame) for path in paths])
        if isinstance(statement, ast.If):
            return self._if(statement, rest, paths, frame)
        if isinstance(statement, LOOPS):
            return self._loop(statement, paths, frame)
        if isinstance(statement, ast.Try) or type(statement).__name__ == "TryStar":
            return self._try(statement, paths, frame)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return self._with(statement, paths, frame)
        if isinstance(statement, ast.Match):
            return self._match(statement, paths, frame)
        return self._simple(statement, paths, frame)

    def _simple(self, statement: ast.stmt, paths: list[Path], frame: Frame) -> Ends:
        after = self._expression(statement, paths, frame)
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            after = [self._assigned(statement, path, frame) for path in after]
        if isinstance(statement, ast.Expr) and Trait.END in self.events.of_node(statement, frame.scope):
            return Ends([])
        if isinstance(statement, ast.Raise):
            return Ends([])
        if isinstance(statement, (ast.Return, ast.Continue, ast.Break)):
            after = [path.fork() for path in after]
            for path in after:
                self.jumped(statement, path)
        if isinstance(statement, ast.Return):
            return Ends([], returns=[self._returned(statement, path, frame) for path in after])
        if isinstance(statement, ast.Continue):
            return Ends([], continues=after)
        return Ends([], breaks=after) if isinstance(statement, ast.Break) else Ends(after)

    def _returned(self, statement: ast.Return, path: Path, frame: Frame) -> Path:
        if statement.value is not None and frame.call is not None:
            value = self.value(statement.value, path, frame)
            if value is not NOTHING:
                path.env[f"return {id(frame.call)}"] = value
        return path

    def _if(self, statement: ast.If, rest: list[ast.stmt], paths: list[Path], frame: Frame) -> Ends:
        ends = Ends()
        paths = self._expression(statement.test, paths, frame)
        switched = self.conditions.switched(statement, rest, frame)
        ways: dict[bool, list[Path]] = {True: [], False: []}
        for path in paths:
            for way, after in self.conditions.branch(statement.test, path, frame):
                known = after if switched is None else self.conditions.decide(after, on=way is switched)
                if known is not None:
                    ways[way].append(known)
        for way, body in ((True, statement.body), (False, statement.orelse)):
            inner = self.block(body, merged(ways[way], self.limit), frame)
            ends.leave(inner)
            ends.next += inner.next
        return ends

    def _loop(self, loop: ast.stmt, paths: list[Path], frame: Frame) -> Ends:
        """Twice, so that what the first iteration leaves behind meets the second; never not at all."""
        assert isinstance(loop, LOOPS)
        ends, left = Ends(), []
        header = loop.test if isinstance(loop, ast.While) else loop.iter
        inside = frame.within(loop)
        turns = 2 if not isinstance(loop, ast.While) and self._binds_role(loop, frame) else self.turns
        for turn in range(turns):
            paths = self._expression(header, paths, frame) if turn == 0 or isinstance(loop, ast.While) else paths
            if not isinstance(loop, ast.While):
                paths = [self._target(loop, turn, path, frame) for path in paths]
            inner = self.block(loop.body, merged(paths, self.limit), inside)
            ends.returns += inner.returns
            left += inner.breaks
            paths = merged([*inner.next, *inner.continues], self.limit)
        after = self.block(loop.orelse, paths, frame) if loop.orelse else Ends(paths)
        ends.leave(after)
        ends.next = [*after.next, *left]
        return ends

    def _target(self, loop: ast.For | ast.AsyncFor, turn: int, path: Path, frame: Frame) -> Path:
        """Names bound by a `for`; elements of a collection keep their identity from loop to loop."""
        path = path.fork()
        counted = isinstance(loop.iter, ast.Call) and last(loop.iter.func) in _COUNTED
        single = isinstance(loop.target, ast.Name)
        for node in ast.walk(loop.target):
            own = place(node, frame, path) if isinstance(node, (ast.Name, ast.Attribute)) else None
            if own is None:
                continue
            shared = self._is_role(node, frame) and not (counted and not isinstance(loop.target, ast.Tuple))
            text = f"{ast.unparse(loop.iter)}[{turn}]" + ("" if single else f":{own}")
            path.assign(own, Val(text=text) if shared else NOTHING)
        return path

    def _binds_role(self, loop: ast.For | ast.AsyncFor, frame: Frame) -> bool:
        return any(self._is_role(n, frame) for n in ast.walk(loop.target) if isinstance(n, (ast.Name, ast.Attribute)))

    def _is_role(self, node: ast.AST, frame: Frame) -> bool:
        assert isinstance(node, ast.expr)
        scope = frame.scope
        return (
            self.program.effects.is_optimizer(node, scope)
            or self.events.is_scaler(node, scope)
            or self.program.values.is_model(node, scope)
        )

    def _try(self, statement: ast.stmt, paths: list[Path], frame: Frame) -> Ends:
        """Handlers run from the state in which the `try` began: what failed did not happen."""
        assert isinstance(statement, ast.Try) or type(statement).__name__ == "TryStar"
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
        inner = self.block(block, merged(ends.next, self.limit), frame)
        inner.leave(ends)
        return inner

    def _with(self, statement: ast.With | ast.AsyncWith, paths: list[Path], frame: Frame) -> Ends:
        for item in statement.items:
            paths = self._expression(item.context_expr, paths, frame)
            if item.optional_vars is not None:
                own = [(path.fork(), place(item.optional_vars, frame, path)) for path in paths]
                paths = [path for path, _ in own]
                for path, name in own:
                    if name is not None:
                        path.assign(name, NOTHING)
        if not self._cuts(statement):
            return self.block(statement.body, paths, frame)
        return self.block(statement.body, paths, frame)

    def _match(self, statement: ast.Match, paths: list[Path], frame: Frame) -> Ends:
        ends = Ends()
        paths = self._expression(statement.subject, paths, frame)
        for case in statement.cases:
            inner = self.block(case.body, paths, frame)
            ends.leave(inner)
            ends.next += inner.next
        ends.next += paths
        return ends

    # -- expressions

    def _expression(self, node: ast.AST, paths: list[Path], frame: Frame) -> list[Path]:
        """Run the events in an expression, or in a simple statement, in the order of evaluation."""
        for inner in self.relevance.nodes(node, frame.scope):
            after: list[Path] = []
            for path in paths:
                after += self._event(inner, path, frame)
            paths = merged(after, self.limit) if len(after) > len(paths) else after
        return paths

    def _event(self, node: ast.AST, path: Path, frame: Frame) -> list[Path]:
        if isinstance(node, ast.Call) and self.events.what(node, frame.scope) is None:
            function = self.events.callee(node, frame.scope)
            if function is None and self.tracks:
                function = self.relevance.computes(node, frame.scope)
            if function is not None and not frame.runs(function) and frame.depth < _DEPTH:
                return self._called(node, function, path, frame)
        return self.handle(node, path, frame)

    def _called(self, call: ast.Call, function: Function, path: Path, frame: Frame) -> list[Path]:
        self.entered.add(function)
        scope = self.program.module.scopes[function]
        path = path.fork()
        inner = Frame(scope, call, frame, frame.loops)
        self._bind(call, scope, path, frame)
        ends = self.block(function.body, [path], inner)
        return merged([*ends.next, *ends.returns], self.limit)

    def _bind(self, call: ast.Call, scope: Scope, path: Path, frame: Frame) -> None:
        """Parameters stand for the arguments of this call."""
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        bound = scope.self_name is not None and not self._names_class(receiver, frame)
        if bound:
            own = identity(receiver, frame, path)
            path.assign(
                f"{scope.qualname}:{scope.self_name}",
                Val(text=own) if own is not None and not _is_super(receiver) else NOTHING,
            )
            if _is_super(receiver):
                path.assign(
                    f"{scope.qualname}:{scope.self_name}",
                    Val(text=identity(ast.Name(frame.scope.self_name or "self"), frame, path)),
                )
        values = {}
        for parameter in scope.parameters()[1 if bound else 0 :]:
            given = argument(call, scope, parameter.arg, bound)
            values[parameter.arg] = (
                self.held(given, path, frame) if given is not None else self._default(parameter.arg, scope, call)
            )
        for name, value in values.items():
            path.assign(f"{scope.qualname}:{name}", value)

    def _names_class(self, receiver: ast.expr, frame: Frame) -> bool:
        return self.program.graph.class_named(receiver, frame.scope) is not None

    def _default(self, name: str, scope: Scope, call: ast.Call) -> Val:
        if any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
            return NOTHING
        assert isinstance(scope.node, FUNCTIONS)
        arguments = scope.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [
            *zip(reversed(positional), reversed(arguments.defaults), strict=False),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        default = next((d for a, d in pairs if a.arg == name), None)
        return Val(constant=(default.value,)) if isinstance(default, ast.Constant) else NOTHING


def _is_super(receiver: ast.expr) -> bool:
    return isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Name) and receiver.func.id == "super"


__all__ = ["EVENTS", "LIMIT", "Ends", "Executor", "Handler"]
