"""What happens in which order in a module: backward, step, clip, and what stands under autocast."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.bench.expert_plain import Lenient, Names, by_position, chosen, last

CLIPS = re.compile(r"clip_?grad|clip_norm|grad_norm|grad_clip|^clip_")
_ASIDE = frozenset(
    "to cuda cpu float numpy detach item len append update pop items values range enumerate "
    "print format join info zero_grad time perf_counter".split()
)
"""What neither runs a model nor computes a loss."""
_FLOAT = re.compile(r"\.float\(\)")


class Event(NamedTuple):
    """An event by its place in the program: the `count`-th of its kind and text in its scope."""

    kind: str
    scope: str
    text: str
    count: int


@dataclass
class Seen:
    """The events of one module, each with its line and whether AMP has to do with it."""

    amp: dict[Event, bool] = field(default_factory=dict)
    lines: dict[Event, int] = field(default_factory=dict)
    calls: dict[Event, set[str]] = field(default_factory=dict)
    """What a statement calls, by last names."""
    evaluation: set[str] = field(default_factory=set)
    """Scopes without gradients."""


def events(text: str, names: Names) -> Seen:
    """Read the events of a module with AMP."""
    reader = _Reader(names)
    reader.block(ast.parse(text).body, "<module>", False)
    return reader.seen


class _Reader:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.forms = Lenient(names)
        self.seen = Seen()
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.unscaled: dict[str, bool] = {}
        self.scaled: set[tuple[str, str]] = set()
        """Names that hold scaled losses, with their scopes."""
        self.silent = False
        """Whether this is a block without gradients."""

    def block(self, body: list[ast.stmt], scope: str, amp: bool) -> None:
        for statement in body:
            self.statement(statement, scope, amp)

    def statement(self, node: ast.stmt, scope: str, amp: bool) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name not in self.names.makers:
                self._defined(node, f"{scope}.{node.name}".removeprefix("<module>."))
        elif isinstance(node, ast.If):
            self._if(node, scope, amp)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            entered = any(map(self.forms.is_region, node.items))
            kept, self.silent = self.silent, self.silent or any(map(_stops, node.items))
            self.block(node.body, scope, amp or entered)
            self.silent = kept
        elif hasattr(node, "body"):
            self._compound(node, scope, amp)
        else:
            self._simple(node, scope, amp)

    def _defined(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: str
    ) -> None:
        marks = [ast.unparse(mark) for mark in node.decorator_list]
        if any("no_grad" in mark or "inference_mode" in mark for mark in marks):
            self.seen.evaluation.add(scope)
        self.block(node.body, scope, any(map(self.forms.is_decorator, node.decorator_list)))

    def _if(self, node: ast.If, scope: str, amp: bool) -> None:
        kept = chosen(node, self.names)
        before, after = dict(self.unscaled), dict(self.unscaled)
        for block in (node.body, node.orelse) if kept is None else (kept,):
            self.unscaled = dict(before)
            self.block(block, scope, amp)
            after |= {name: here or after.get(name, False) for name, here in self.unscaled.items()}
        self.unscaled = after if kept is None else self.unscaled

    def _compound(self, node: ast.stmt, scope: str, amp: bool) -> None:
        for name in ("body", "orelse", "finalbody"):
            self.block(getattr(node, name, []), scope, amp)
        for handler in getattr(node, "handlers", []):
            self.block(handler.body, scope, amp)

    def _simple(self, node: ast.stmt, scope: str, amp: bool) -> None:
        calls = [c for c in ast.walk(node) if isinstance(c, ast.Call)]
        if isinstance(node, ast.Assign) and self._is_scaling(node.value):
            self.scaled |= {(scope, last(target)) for target in node.targets}
        cycle = [c for c in calls if self._event(c, scope)]
        if self.silent or cycle or any(self._of_scaler(c) for c in calls):
            return
        if {last(c.func) for c in calls} <= _ASIDE:  # no call, too
            return
        event = self._add("statement", scope, _plain_text(node), node.lineno, amp)
        self.seen.calls[event] = {last(c.func) for c in calls}

    def _of_scaler(self, call: ast.Call) -> bool:
        func = call.func
        made = last(func) == "GradScaler"
        return made or isinstance(func, ast.Attribute) and self.forms.is_scaler(func.value)

    def _event(self, call: ast.Call, scope: str) -> bool:
        func = call.func
        if CLIPS.search(last(func)):
            state = self.unscaled.get(scope, False)
            self._add("clip", scope, last(func), call.lineno, state)
            return True
        if not isinstance(func, ast.Attribute):
            return False
        if func.attr == "backward":
            self._backward(call, func, scope)
        elif func.attr == "step":
            given, _ = by_position(call)
            scaled = self.forms.is_scaler(func.value) and bool(given)
            owner = given[0] if scaled else func.value
            handed = [*call.args, *(one.value for one in call.keywords)]
            is_given = any(map(self.forms.is_scaler, handed))
            self._add("step", scope, ast.unparse(owner), call.lineno, scaled or is_given)
        elif func.attr == "unscale_":
            self.unscaled[scope] = True
        return func.attr in ("backward", "step")

    def _backward(self, call: ast.Call, func: ast.Attribute, scope: str) -> None:
        inner = func.value
        scaled = self._is_scaling(inner) or (scope, last(inner)) in self.scaled
        self.unscaled[scope] = False
        self._add("backward", scope, "", call.lineno, scaled)

    def _is_scaling(self, node: ast.expr) -> bool:
        """`scaler.scale(loss)`"""
        is_scale = isinstance(node, ast.Call) and last(node.func) == "scale"
        return is_scale and self._of_scaler(node)  # type: ignore[arg-type]

    def _add(self, kind: str, scope: str, text: str, line: int, amp: bool) -> Event:
        key = (kind, scope, text)
        event = Event(*key, self.counts[key])
        self.counts[key] += 1
        self.seen.amp[event], self.seen.lines[event] = amp, line
        return event


def _stops(item: ast.withitem) -> bool:
    call = item.context_expr
    return isinstance(call, ast.Call) and last(call.func) in ("no_grad", "inference_mode")


def _plain_text(node: ast.stmt) -> str:
    return _FLOAT.sub("", ast.unparse(node))


def reached(files: dict[str, Seen]) -> None:
    """Count what regions call as under autocast too, by the names of functions."""
    called: set[str] = set()
    while True:
        found = set(called)
        for seen in files.values():
            for event in list(_statements(seen)):
                if seen.amp[event] or _function(event) in called:
                    seen.amp[event] = True
                    found |= seen.calls[event] | {"forward"}
        if found == called:
            return
        called = found


def _statements(seen: Seen) -> Iterator[Event]:
    return (event for event in seen.amp if event.kind == "statement")


def _function(event: Event) -> str:
    return event.scope.rpartition(".")[2]
