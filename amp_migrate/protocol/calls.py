"""A call on a path: what stands for the parameters, and what becomes of the path behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.calls.methods_by_name import name_asked, text_of
from amp_migrate.model.steps.recognition import EVENTS, Events, Trait
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, shallow
from amp_migrate.protocol.frames import Frame, identity
from amp_migrate.protocol.paths import NOTHING, Path, Val
from amp_migrate.protocol.summaries import RETURN, Aside, Summaries
from amp_migrate.protocol.values import Evaluation
from amp_migrate.records import NamedTuple


class Entry(NamedTuple):
    """A path at the head of a function."""

    call: ast.Call
    path: Path
    frame: Frame
    aside: Aside
    key: object
    """What the outcome depends on."""


class Calls:
    """Leads paths into functions and back."""

    def __init__(self, evaluation: Evaluation, summaries: Summaries) -> None:
        self.evaluation = evaluation
        self.program = evaluation.program
        self.summaries = summaries
        self._optimizers: frozenset[str] = frozenset()
        self._homes: frozenset[str] = frozenset()

    def begin(self, optimizers: Iterable[str]) -> None:
        """Start another run, in which these are the optimizers."""
        self._optimizers = frozenset(optimizers)
        self._homes = frozenset(
            n.rpartition(":")[0] for n in self._optimizers if ":" in n
        )
        self.summaries.clear()

    def entry(
        self, call: ast.Call, function: Function, path: Path, frame: Frame
    ) -> Entry:
        """The path as the function sees it."""
        scope = self.program.module.scopes[function]
        path = path.fork()
        self._bind(call, scope, path, frame)
        handed = self._handed_on(call, path, frame)
        aside = self.summaries.split(function, path)
        inner = Frame(scope, call, frame, frame.loops, handed)
        key = self.summaries.key(function, inner, path, self._homes)
        return Entry(call, path, inner, aside, key)

    def name_given(
        self, call: ast.Call, path: Path, frame: Frame
    ) -> str | None:
        """The name of the method that `getattr(hook, name)(...)` or `hook.method(...)` runs on this
        path.
        """
        asked = name_asked(self.program, call, frame.scope)
        if asked is None:
            func = call.func
            return func.attr if isinstance(func, ast.Attribute) else None
        own = text_of(asked)
        held = self.evaluation.held(asked, path, frame) if own is None else None
        if held is None or not held.constant:
            parts = (held.text or "").split(".") if held is not None else []
            is_member = len(parts) > 2 and parts[-1] == "name"
            return parts[-2] if is_member else own
        name = held.constant[0]
        return name if isinstance(name, str) else None

    def named(
        self, call: ast.Call, path: Path, frame: Frame
    ) -> list[Function] | None:
        """The methods that such a call runs; None where nobody knows which, or which first."""
        known = self.name_given(call, path, frame)
        events = self.evaluation.events
        methods = [
            one
            for one in events.by_name(call, frame.scope)
            if known in (None, one.name)
        ]
        traits = [events.of_function(one) & EVENTS for one in methods]
        takes_part = [one for one in traits if one]
        uses = any(one & ~Trait.OTHER for one in takes_part)
        if known is None or (uses and len(takes_part) > 1):
            return None
        return [
            one
            for one, own in zip(methods, traits, strict=True)
            if own or not uses
        ]

    def leave(self, entry: Entry, path: Path) -> Path:
        """A path at the end of the function, without what was its own."""
        return self.summaries.left(entry.frame.scope.qualname, path)

    def back(self, entry: Entry, path: Path) -> Path:
        """A path behind the call."""
        path = self.summaries.joined(entry.aside, path)
        value = path.env.pop(RETURN, None)
        if value is not None:
            path.env[f"{RETURN}{id(entry.call)}"] = value
        return path

    def _handed_on(
        self, call: ast.Call, path: Path, frame: Frame
    ) -> frozenset[str]:
        """What the calls that led into a function mention, back to one that names an optimizer."""
        own = frozenset(mentioned(call, path, frame))
        return own if own & self._optimizers else own | frame.handed

    def _bind(
        self, call: ast.Call, scope: Scope, path: Path, frame: Frame
    ) -> None:
        """Parameters stand for the arguments of this call."""
        receiver = (
            call.func.value
            if isinstance(call.func, ast.Attribute)
            else call.func
        )
        bound = scope.self_name is not None and not self._names_class(
            receiver, frame
        )
        if bound:
            name = f"{scope.qualname}:{scope.self_name}"
            path.assign(name, self._own(receiver, path, frame))
        bound = bound or scope.class_name is not None
        values = {}
        for parameter in scope.parameters()[1 if bound else 0 :]:
            given = argument(call, scope, parameter.arg, bound)
            values[parameter.arg] = (
                self.evaluation.held(given, path, frame)
                if given is not None
                else self._default(parameter.arg, scope, call)
            )
        for name, value in values.items():
            path.assign(f"{scope.qualname}:{name}", value)

    def _own(self, receiver: ast.expr, path: Path, frame: Frame) -> Val:
        """What `self` stands for in a method that is called on `receiver`."""
        if _is_super(receiver):
            caller = ast.Name(frame.scope.self_name or "self")
            return Val(text=identity(caller, frame, path))
        own = identity(receiver, frame, path)
        return NOTHING if own is None else Val(text=own)

    def _names_class(self, receiver: ast.expr, frame: Frame) -> bool:
        return self.program.graph.class_named(receiver, frame.scope) is not None

    def _default(self, name: str, scope: Scope, call: ast.Call) -> Val:
        if any(k.arg is None for k in call.keywords) or any(
            isinstance(a, ast.Starred) for a in call.args
        ):
            return NOTHING
        assert isinstance(scope.node, FUNCTIONS)
        arguments = scope.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [
            *zip(
                reversed(positional), reversed(arguments.defaults), strict=False
            ),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        default = next((d for a, d in pairs if a.arg == name), None)
        return (
            Val(constant=(default.value,))
            if isinstance(default, ast.Constant)
            else NOTHING
        )


def hooks_by_name(
    events: Events, call: ast.Call, scope: Scope
) -> list[list[Function]]:
    """The methods that a call finds by their names and that take part in the step, name by name;
    only those of a name one of which uses the scaler.
    """
    groups: dict[str, list[Function]] = {}
    for one in events.by_name(call, scope):
        if events.of_function(one) & EVENTS:
            groups.setdefault(one.name, []).append(one)
    return [
        group
        for group in groups.values()
        if any(events.of_function(one) & ~Trait.OTHER & EVENTS for one in group)
    ]


def mentioned(node: ast.AST, path: Path, frame: Frame) -> set[str]:
    """The names in an expression, in terms that hold across functions."""
    kinds = (ast.Name, ast.Attribute, ast.Subscript)
    inner = (n for n in shallow(node) if isinstance(n, kinds))
    return {
        name for n in inner if (name := identity(n, frame, path)) is not None
    }


def _is_super(receiver: ast.expr) -> bool:
    return (
        isinstance(receiver, ast.Call)
        and isinstance(receiver.func, ast.Name)
        and receiver.func.id == "super"
    )
