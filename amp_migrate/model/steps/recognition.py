"""Which calls are events of the AMP protocol, and which statements lead to any, through the
functions in sight.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from amp_migrate.flags import Flag, auto
from amp_migrate.model.calls.methods_by_name import methods_by_name
from amp_migrate.model.dataflow.run_ends import ends_run
from amp_migrate.model.gradients.effects import forgets_gradients
from amp_migrate.model.gradients.kept_readers import kept_reader
from amp_migrate.model.gradients.kept_reads import kept_read
from amp_migrate.model.gradients.readers import called_reader
from amp_migrate.model.gradients.uses import BOUNDS, is_gradient, read_of_values
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.scalers import SCALER_METHODS, Scalers
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Function,
    Scope,
    blocks,
    heads,
    shallow,
)
from amp_migrate.model.values.kinds import Kind
from amp_migrate.patterns import pattern
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_OWN_CLIPPERS = pattern(r"(?i)accelerat|fabric|engine|scaler")


class Trait(Flag):
    """EventKind running a statement involves."""

    NONE = 0
    SCALER = auto()
    """A method of a scaler."""
    PLAIN = auto()
    """A plain backward, or a step past the scaler."""
    OTHER = auto()
    """Clipping, reading or clearing gradients."""
    JUMP = auto()
    """Leaves the block: continue, break, return."""
    END = auto()
    """Raises, or ends the program."""


EVENTS = Trait.SCALER | Trait.PLAIN | Trait.OTHER


class _Own(NamedTuple):
    traits: Trait
    callees: tuple[Function, ...]


class Events:
    """Recognizes the events of one module."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._whats: dict[int, EventKind | None] = {}
        self._traits: dict[int, Trait] = {}
        self._functions: dict[Function, Trait] = {}
        self._owns: dict[Function, _Own] = {}
        self._by_name: dict[ast.Call, tuple[Function, ...]] = {}
        self.scalers = Scalers(program)

    def scaler_scopes(self) -> list[Scope]:
        """Functions, and the module, that call a method of a scaler themselves."""
        return [
            scope
            for scope in self.program.module.scopes.values()
            if any(self.scalers.has_method(c, scope) for c in scope.calls)
        ]

    def is_scaler(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether `expr` is a GradScaler that may be enabled."""
        return self.scalers.is_one(expr, scope)

    def what(self, call: ast.AST, scope: Scope) -> EventKind | None:
        """The event that a call (or a `.grad` read) is, if any; helpers in sight are none
        themselves.
        """
        key = id(call)
        if key not in self._whats:
            self._whats[key] = self._what(call, scope)
        return self._whats[key]

    def _what(self, node: ast.AST, scope: Scope) -> EventKind | None:
        if isinstance(node, ast.Attribute):
            return read_of_values(self.program, node)
        if not isinstance(node, ast.Call):
            return None
        if self.scalers.has_method(node, scope):
            return self._of_scaler(node)
        effects = self.program.effects
        if effects.is_backward(node, scope):
            return EventKind.BACKWARD
        func = node.func
        if (
            isinstance(func, ast.Attribute)
            and func.attr == "step"
            and self._is_bare_step(node, func, scope)
        ):
            return EventKind.BARE_STEP
        if isinstance(func, ast.Attribute) and (
            func.attr == "zero_grad"
            or forgets_gradients(self.program.module, node)
        ):
            return EventKind.ZERO_GRAD
        if (
            "caler" in _last(func)
            and self.program.values.kind(node, scope) is Kind.SCALER
            and self._makes(node, scope)
        ):
            return EventKind.SCALER_CREATED
        return kept_read(self.program, node) or self._of_reader(node, scope)

    def _is_bare_step(
        self, call: ast.Call, func: ast.Attribute, scope: Scope
    ) -> bool:
        value = self.program.values.of(func.value, scope)
        if (
            value.cls is not None
            and self.program.graph.method(value.cls, "step") is not None
        ):
            return False  # runs code in sight, or wraps an optimizer in its own way
        if value.kind is Kind.WRAPPER:
            return False
        given = any(self.is_scaler(k.value, scope) for k in call.keywords)
        return (
            not call.args
            and not given
            and self.program.effects.is_step(call, scope)
        )

    def _makes(self, call: ast.Call, scope: Scope) -> bool:
        """A constructor, not a function that returns a scaler."""
        return self.program.values.callee(call, scope) is None

    def _of_scaler(self, call: ast.Call) -> EventKind | None:
        assert isinstance(call.func, ast.Attribute)
        found = SCALER_METHODS[call.func.attr]
        if (
            found in {EventKind.SCALER_STEP, EventKind.UNSCALE, EventKind.SCALE}
            and not call.args
            and not call.keywords
        ):
            return None
        return found

    def _of_reader(self, call: ast.Call, scope: Scope) -> EventKind | None:
        """Clippers and norms out of sight, and what bounds a gradient in place."""
        last = _last(call.func)
        holder = (
            call.func.value if isinstance(call.func, ast.Attribute) else None
        )
        if last in BOUNDS:
            return (
                EventKind.CLIP
                if holder is not None and is_gradient(holder)
                else None
            )
        if not (call.args or call.keywords):
            return None
        found = called_reader(self.program.module, call.func, last)
        found = found or kept_reader(self.program, call.func, scope)
        if found is None or self.program.values.callee(call, scope) is not None:
            return None
        if found is EventKind.CLIP:
            name = (dotted_name(holder) or "") if holder is not None else ""
            return None if _OWN_CLIPPERS.search(name) else found
        return found if call.args and not _mentions_gradient(call) else None

    def callee(self, call: ast.Call, scope: Scope) -> Function | None:
        """The function in sight that `call` runs, `__call__` of an object too, if it
        holds events.
        """
        function = self._run_by(call, scope)
        return (
            function
            if function is not None and self.of_function(function)
            else None
        )

    def _run_by(self, call: ast.Call, scope: Scope) -> Function | None:
        function = self.in_sight(call, scope)
        if function is not None or "__call__" not in self._defined:
            return function
        value = self.program.values.of(call.func, scope)
        if (
            value.cls is None
            or value.kind is Kind.OPTIMIZER
            or self.program.graph.class_named(call.func, scope) is value.cls
        ):
            return None
        return self.program.graph.method(value.cls, "__call__")

    def in_sight(self, call: ast.Call, scope: Scope) -> Function | None:
        """The definition behind a call; asked for names that are defined at all."""
        return (
            self.program.values.callee(call, scope)
            if _last(call.func) in self._defined
            else None
        )

    def by_name(self, call: ast.Call, scope: Scope) -> tuple[Function, ...]:
        """The methods that a call by a name alone may run."""
        if call not in self._by_name:
            self._by_name[call] = methods_by_name(self.program, call, scope)
        return self._by_name[call]

    @cached_property
    def _defined(self) -> set[str]:
        return {
            node.name
            for node in self.program.module.scopes
            if isinstance(node, FUNCTIONS)
        }

    def of_function(self, function: Function) -> Trait:
        """Events that calling a function in sight may cause, through what it calls; generators
        and optimizers' own methods cause none.
        """
        known = self._functions.get(function)
        if known is None:
            known = Trait.NONE
            for one in self._runs(function):
                known |= self._own(one).traits
            self._functions[function] = known
        return known

    def _runs(self, function: Function) -> list[Function]:
        """The function and those that it calls, however deep."""
        found = {function: None}
        wanted = [function]
        while wanted:
            for callee in self._own(wanted.pop()).callees:
                if callee not in found:
                    found[callee] = None
                    wanted.append(callee)
        return list(found)

    def _own(self, function: Function) -> _Own:
        """EventKind a function does itself, and which functions it calls."""
        if function not in self._owns:
            scope = self.program.module.scopes[function]
            traits, callees = Trait.NONE, list[Function]()
            if not self._is_apart(function, scope):
                for statement in function.body:
                    for node in shallow(statement):
                        traits |= self._itself(node, scope) & EVENTS
                        if not isinstance(node, ast.Call):
                            continue
                        callee = self._run_by(node, scope)
                        callees += [callee] if callee is not None else []
                        callees += self.by_name(node, scope)
            self._owns[function] = _Own(traits, tuple(callees))
        return self._owns[function]

    def _is_apart(self, function: Function, scope: Scope) -> bool:
        owner = scope.owner
        if owner is not None and isinstance(owner.node, ast.ClassDef):
            bases = [
                self.program.canonical(b) or dotted_name(b) or ""
                for b in owner.node.bases
            ]
            if any(
                b.startswith("torch.optim")
                or b.endswith(("Optimizer", "GradScaler"))
                for b in bases
            ):
                return True
        return any(
            isinstance(n, (ast.Yield, ast.YieldFrom))
            for s in function.body
            for n in shallow(s)
        )

    def of_block(self, block: Iterable[ast.stmt], scope: Scope) -> Trait:
        """The traits of several statements together."""
        found = Trait.NONE
        for statement in block:
            found |= self.of_node(statement, scope)
        return found

    def of_node(self, node: ast.AST, scope: Scope) -> Trait:
        """The traits of a statement or expression with everything in it."""
        known = self._traits.get(id(node))
        if known is not None:
            return known
        for inner in reversed(self._unknown_blocks(node)):
            self._traits[id(inner)] = self._sum(inner, scope)
        return self._traits[id(node)]

    def _unknown_blocks(self, node: ast.AST) -> list[ast.AST]:
        """`node` and the statements in it, outermost first: a chain of `elif` is deep."""
        found = [node]
        for one in found:
            if not isinstance(one, (*FUNCTIONS, ast.ClassDef)):
                found += [
                    s
                    for block in blocks(one)
                    for s in block
                    if id(s) not in self._traits
                ]
        return found

    def _sum(self, node: ast.AST, scope: Scope) -> Trait:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            return Trait.NONE
        found = Trait.NONE
        inner = [statement for block in blocks(node) for statement in block]
        for statement in inner:
            found |= self._traits[id(statement)]
        for part in heads(node) if inner else (node,):
            for one in shallow(part):
                found |= self._trait(one, scope)
        return found

    def _trait(self, node: ast.AST, scope: Scope) -> Trait:
        found = self._itself(node, scope)
        if (
            found
            or not isinstance(node, ast.Call)
            or self.what(node, scope) is not None
        ):
            return found
        function = self.callee(node, scope)
        if function is not None:
            return self.of_function(function)
        for one in self.by_name(node, scope):
            found |= self.of_function(one)
        return found

    def _itself(self, node: ast.AST, scope: Scope) -> Trait:
        """The traits of one node without what it calls."""
        if isinstance(node, (ast.Continue, ast.Break, ast.Return)):
            return Trait.JUMP
        if isinstance(node, ast.Raise):
            return Trait.END
        if not isinstance(node, (ast.Call, ast.Attribute)):
            return Trait.NONE
        what = self.what(node, scope)
        if what is None:
            ends = ends_run(self.program.module, node)
            return Trait.END if ends else Trait.NONE
        if what in {
            EventKind.SCALE,
            EventKind.UNSCALE,
            EventKind.SCALER_STEP,
            EventKind.UPDATE,
            EventKind.SCALER_CREATED,
        }:
            return Trait.SCALER
        if what == EventKind.BACKWARD:
            return Trait.NONE if _is_scaled(node) else Trait.PLAIN
        return Trait.PLAIN if what == EventKind.BARE_STEP else Trait.OTHER


def _is_scaled(node: ast.AST) -> bool:
    """`scaler.scale(loss).backward()`, as written."""
    func = node.func if isinstance(node, ast.Call) else None
    inner = func.value if isinstance(func, ast.Attribute) else None
    return isinstance(inner, ast.Call) and _last(inner.func) == "scale"


def _mentions_gradient(call: ast.Call) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == "grad"
        for node in ast.walk(call)
    )


def _last(func: ast.expr) -> str:
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""
