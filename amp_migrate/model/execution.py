"""Runs a scope over sets of paths: branches with correlated conditions, loops twice, calls into functions in sight."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from amp_migrate.model.calls import argument
from amp_migrate.model.conditions import Conditions
from amp_migrate.model.events import EVENTS, Events, Trait
from amp_migrate.model.paths import NOTHING, Frame, Path, Val, identity, joined, merged, place
from amp_migrate.model.relevance import Relevance
from amp_migrate.model.syntax import FUNCTIONS, LOOPS, Function, Scope, blocks

LIMIT = 40
"""Paths that are followed side by side; more are dropped, which can only miss a mistake."""
_DEPTH = 5
_CUTS = {"detach", "item", "numpy", "tolist", "no_grad"}
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


class Executor:
    """Follows the paths of one module; `handle` is told of every event and answers with the paths after it."""

    def __init__(self, events: Events, handle: Handler, jumped: Callable[[ast.stmt, Path], None]) -> None:
        self.events = events
        self.program = events.program
        self.conditions = Conditions(events)
        self.relevance = Relevance(events)
        self.handle = handle
        self.jumped = jumped
        self.entered: set[ast.AST] = set()
        self.limit = LIMIT
        self.turns = 2
        self.tracks = True
        """Whether it matters which models a value was computed from."""
        self._scaling: dict[int, bool] = {}

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
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Pass, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
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
        counted = isinstance(loop.iter, ast.Call) and _last(loop.iter.func) in _COUNTED
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

    def _cuts(self, statement: ast.With | ast.AsyncWith) -> bool:
        return any(_last(item.context_expr.func) in {"no_grad", "inference_mode"} for item in statement.items if isinstance(item.context_expr, ast.Call))

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
            path.assign(f"{scope.qualname}:{scope.self_name}", Val(text=own) if own is not None and not _is_super(receiver) else NOTHING)
            if _is_super(receiver):
                path.assign(f"{scope.qualname}:{scope.self_name}", Val(text=identity(ast.Name(frame.scope.self_name or "self"), frame, path)))
        values = {}
        for parameter in scope.parameters()[1 if bound else 0 :]:
            given = argument(call, scope, parameter.arg, bound)
            values[parameter.arg] = self.held(given, path, frame) if given is not None else self._default(parameter.arg, scope, call)
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
        pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
        default = next((d for a, d in pairs if a.arg == name), None)
        return Val(constant=(default.value,)) if isinstance(default, ast.Constant) else NOTHING

    # -- values

    def held(self, expr: ast.expr, path: Path, frame: Frame) -> Val:
        """What a name holds that is given the value of `expr`."""
        if isinstance(expr, ast.Constant):
            return Val(constant=(expr.value,))
        value = self.value(expr, path, frame)
        if value is not NOTHING:
            return replace(value, text=identity(expr, frame, path), flipped=False, amp=None)
        condition = self.conditions.held(expr, path, frame)
        if condition is not None:
            return condition
        name = identity(expr, frame, path)
        return Val(text=name) if name is not None else NOTHING

    def value(self, expr: ast.AST, path: Path, frame: Frame) -> Val:
        """What `expr` was computed from: models, and a scaler."""
        if not self.tracks and not self._may_scale(expr, path):
            return NOTHING
        own = place(expr, frame, path)
        if own is not None:
            known = path.env.get(own)
            if known is None and isinstance(expr, (ast.Subscript, ast.Attribute)):
                return joined([self.value(expr.value, path, frame)])
            return known if known is not None and (known.models or known.scaled or known.vague) else NOTHING
        if isinstance(expr, ast.Call):
            return self._of_call(expr, path, frame)
        if isinstance(expr, ast.IfExp):
            value = joined([self.value(expr.body, path, frame), self.value(expr.orelse, path, frame)])
            return Val(models=value.models, vague=value.vague, scaled="?") if value.scaled else value
        if isinstance(expr, (ast.Lambda, ast.Constant)):
            return NOTHING
        return joined(self.value(child, path, frame) for child in ast.iter_child_nodes(expr))

    def _may_scale(self, expr: ast.AST, path: Path) -> bool:
        """Whether a scaler, or something scaled, may be in `expr`."""
        if any(v.scaled for v in path.env.values()):
            return True
        key = id(expr)
        if key not in self._scaling:
            self._scaling[key] = any("scal" in (n.attr if isinstance(n, ast.Attribute) else n.id).lower() for n in ast.walk(expr) if isinstance(n, (ast.Name, ast.Attribute)))
        return self._scaling[key] or any(k.startswith("return ") for k in path.env)

    def _of_call(self, call: ast.Call, path: Path, frame: Frame) -> Val:
        scope, func = frame.scope, call.func
        known = path.env.get(f"return {id(call)}")
        if known is not None:
            return known
        arguments = joined(self.value(a, path, frame) for a in [*call.args, *(k.value for k in call.keywords)])
        if isinstance(func, ast.Attribute):
            if func.attr in _CUTS:
                return NOTHING
            if func.attr == "scale":
                name = identity(func.value, frame, path) if self.events.is_scaler(func.value, scope) else None
                return Val(models=arguments.models, vague=arguments.vague, scaled=name or "?")
        if self.events.what(call, scope) is not None:
            return NOTHING
        if self.program.effects.is_forward(call, scope) and self.program.values.callee(call, scope) is None:
            name = identity(func, frame, path)
            return Val(models=arguments.models | {name or "?"}, scaled=arguments.scaled)
        return self._unknown(call, arguments, path, frame)

    def _unknown(self, call: ast.Call, arguments: Val, path: Path, frame: Frame) -> Val:
        scope = frame.scope
        given = [*call.args, *(k.value for k in call.keywords)]
        models = {identity(a, frame, path) or "?" for a in given if self.program.values.is_model(a, scope)}
        scaled = "?" if any(self.events.is_scaler(a, scope) for a in given) else arguments.scaled
        holder = self.value(call.func.value, path, frame) if isinstance(call.func, ast.Attribute) else NOTHING
        found = joined([arguments, holder, Val(models=frozenset(models), scaled=scaled)])
        if found.models or found.vague:
            return found
        torch = (self.program.canonical(call.func) or "").startswith("torch")
        vague = not torch and not (isinstance(call.func, ast.Name) and call.func.id in _BUILTINS)
        return Val(vague=vague, scaled=found.scaled) if vague or found.scaled else NOTHING

    def _assigned(self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign, path: Path, frame: Frame) -> Path:
        if statement.value is None:
            return path
        path = path.fork()
        if isinstance(statement, ast.AugAssign):
            own = place(statement.target, frame, path)
            if own is not None:
                old = path.env.get(own, NOTHING)
                path.assign(own, joined([old, self.value(statement.value, path, frame)]))
            return path
        value = self.held(statement.value, path, frame)
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            self._store(target, statement.value, value, path, frame)
        return path

    def _store(self, target: ast.expr, given: ast.expr | None, value: Val, path: Path, frame: Frame) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = given.elts if isinstance(given, (ast.Tuple, ast.List)) and len(given.elts) == len(target.elts) else None
            held = [self.held(p, path, frame) for p in parts] if parts is not None else [joined([value])] * len(target.elts)
            for element, inner in zip(target.elts, held, strict=True):
                self._store(element, None, inner, path, frame)
            return
        if isinstance(target, ast.Starred):
            target = target.value
        own = place(target, frame, path)
        if own is not None:
            keeps = value.text is None or value.text != own
            path.assign(own, value if keeps else NOTHING)

    def _skimmed(self, statement: ast.stmt, path: Path, frame: Frame) -> Path:
        """A statement without events: what it binds, whichever way it goes."""
        path = path.fork()
        self._skim(statement, path, frame, sure=True)
        return path

    def _skim(self, statement: ast.stmt, path: Path, frame: Frame, *, sure: bool) -> None:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            self._skim_assignment(statement, path, frame, sure=sure)
            return
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            for node in ast.walk(statement.target):
                own = place(node, frame, path)
                if own is not None:
                    path.assign(own, joined([self.value(statement.iter, path, frame)]))
        inside = isinstance(statement, (ast.With, ast.AsyncWith))
        cut = isinstance(statement, (ast.With, ast.AsyncWith)) and self._cuts(statement)
        for block in blocks(statement):
            for inner in block:
                self._skim(inner, path, frame, sure=sure and inside)
                if cut and isinstance(inner, (ast.Assign, ast.AnnAssign)):
                    self._clear(inner, path, frame)

    def _skim_assignment(self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign, path: Path, frame: Frame, *, sure: bool) -> None:
        if not self.tracks and not sure and (statement.value is None or not self._may_scale(statement.value, path)):
            self._forget(statement, path, frame)
            return
        names = self._bound(statement, path, frame)
        before = {name: path.env.get(name, NOTHING) for name in names}
        after = self._assigned(statement, path, frame)
        path.facts, path.env = after.facts, after.env
        for name in () if sure else names:
            value = joined([before[name], path.env.get(name, NOTHING)])
            path.env[name] = value
            if value is NOTHING:
                del path.env[name]

    def _bound(self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign, path: Path, frame: Frame) -> list[str]:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        nodes = [n for t in targets for n in ast.walk(t) if isinstance(getattr(n, "ctx", None), ast.Store)]
        return [own for n in nodes if (own := place(n, frame, path)) is not None]

    def _forget(self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign, path: Path, frame: Frame) -> None:
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            for node in ast.walk(target):
                own = place(node, frame, path)
                if own is not None:
                    path.assign(own, NOTHING)

    def _clear(self, statement: ast.Assign | ast.AnnAssign, path: Path, frame: Frame) -> None:
        """Values made under `no_grad` carry no gradients."""
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            for node in ast.walk(target):
                own = place(node, frame, path)
                if own is not None:
                    path.env.pop(own, None)


def _is_super(receiver: ast.expr) -> bool:
    return isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Name) and receiver.func.id == "super"


def _last(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


_BUILTINS = {"sum", "len", "range", "float", "int", "str", "zip", "enumerate", "next", "iter", "max", "min", "abs", "list", "tuple", "dict", "set", "sorted", "isinstance", "getattr", "print", "map", "round", "bool"}
__all__ = ["EVENTS", "LIMIT", "Ends", "Executor", "Handler"]
