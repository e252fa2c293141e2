"""What calls make, and which definitions they run."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import gives_self
from amp_migrate.model.calls.handed_through import handed_through
from amp_migrate.model.calls.held_functions import held_function
from amp_migrate.model.classes.bases_abroad import inherited_method, method_of
from amp_migrate.model.classes.makers import Makers
from amp_migrate.model.dataflow.answers import any_open
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.one_of_several import is_one_of_several
from amp_migrate.model.syntax.module import (
    Function,
    Scope,
    returned,
    returned_at,
)
from amp_migrate.model.values.kinds import (
    OTHER,
    UNKNOWN,
    Kind,
    Value,
    library_kind,
    scheduler_name,
)
from amp_migrate.torch_facts.layers import CONTAINERS
from amp_migrate.torch_facts.methods import GIVES_MODULE

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Definition
    from amp_migrate.model.program import Program
    from amp_migrate.model.values.value_kinds import Values

_MOVED = (Kind.MODEL, Kind.CRITERION)
_COPIES = {"copy.deepcopy", "copy.copy"}
_WRAPS = ("DataParallel", "DistributedDataParallel", ".compile", ".script")
_CONTAINERS = {
    "list",
    "tuple",
    "dict",
    "OrderedDict",
    "reversed",
    "sorted",
    "set",
}


class CallValues:
    """Answers `of` and `callee` for the calls of one program."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.module = values.module
        self.graph = values.graph
        self._callees: dict[tuple[ast.Call, Scope], Function | None] = {}
        self.makers = Makers(values)

    def of(self, expr: ast.Call, scope: Scope) -> Value:
        """What a call makes, `expr` being evaluated in `scope`."""
        canonical = self.module.canonical(expr.func)
        if (
            canonical is not None
            and (found := library_kind(canonical)) is not Kind.UNKNOWN
        ):
            return self._library(found, canonical, expr, scope)
        cls = self.graph.class_named(expr.func, scope)
        several = is_one_of_several(expr.func, scope)
        if cls is not None:
            made = self._of_new(self.values, cls)
            made = made or self.values.instance(cls, expr)
            return made._replace(mixed=made.mixed or several)
        if (abroad := self.values.abroad(expr.func, scope)) is not None:
            made = self._made_abroad(abroad, expr)
            return made._replace(mixed=made.mixed or several)
        if isinstance(expr.func, ast.Name) and expr.func.id in _CONTAINERS:
            return self._container_call(expr, scope)
        kept = self._kept(expr, scope)
        if kept:
            return kept
        functions = self.callees(expr, scope)
        if functions:
            return self.values.join(
                self.makers.searched_for(expr, scope, value, inner)
                or self.values.of(value, inner)
                for function in functions
                for inner in (self.module.scopes[function],)
                for value in returned(function)
            )
        return (
            self._of_foreign_method(expr, scope)
            or self.makers.made(expr, scope)
            or self._guessed(expr, scope)
        )

    def _of_new(self, values: Values, cls: ast.ClassDef) -> Value:
        """What a class makes whose `__new__` gives back objects of others."""
        new = values.graph.method(cls, "__new__")
        if new is None:
            return UNKNOWN
        scope = values.module.scopes[new]
        given = [values.of(one, scope) for one in returned(new)]
        return values.join(given) if given and all(given) else UNKNOWN

    def _of_foreign_method(self, expr: ast.Call, scope: Scope) -> Value:
        """`model.configure_optimizers()` of a class in another file."""
        if not isinstance(expr.func, ast.Attribute):
            return UNKNOWN
        value = self.values.of(expr.func.value, scope)
        method = None
        if value.foreign is not None:
            method = method_of(*value.foreign, expr.func.attr)
        elif value.cls is not None:
            method = inherited_method(self.values, value.cls, expr.func.attr)
        return UNKNOWN if method is None else self._made_abroad(method, expr)

    def _made_abroad(self, definition: Definition, expr: ast.Call) -> Value:
        """An instance of a class of another module, or what a function there returns."""
        program, node = definition
        if isinstance(node, ast.ClassDef):
            made = self._of_new(program.values, node)
            if made:
                return made.abroad(program)
            kind = program.values.class_kind(node)
            return Value(kind, expr, node.name, foreign=(program, node))
        return self._brought(program, node, returned(node), expr)

    def part_made_abroad(
        self, expr: ast.Call, index: int, scope: Scope
    ) -> Value:
        """`model, optimizer = build(args)`: one of what a function of another module returns."""
        abroad = self.values.abroad(expr.func, scope)
        if abroad is None or isinstance(abroad[1], ast.ClassDef):
            return UNKNOWN
        return self._brought(
            abroad[0], abroad[1], returned_at(abroad[1], index), expr
        )

    def _brought(
        self,
        program: Program,
        function: Function,
        parts: Sequence[ast.expr],
        expr: ast.Call,
    ) -> Value:
        """What a function of another module makes, or gives back of what it is given."""
        inner = program.scope(function)
        for part in parts:
            given = handed_through(program, part, expr, inner)
            scope = self.module.scope_of(expr)
            value = self.values.of(given, scope) if given else UNKNOWN
            if value.kind in _MOVED:
                return value
            searched = self.makers.searched_for(expr, scope, part, inner)
            if searched:
                return searched
        made = self.values.join(
            program.values.of(part, inner) for part in parts
        )
        foreign = made.foreign or (
            (program, made.cls) if made.cls is not None else None
        )
        return Value(
            made.kind, expr, made.name, foreign=foreign, mixed=made.mixed
        )

    def _container_call(self, expr: ast.Call, scope: Scope) -> Value:
        values = [*(k.value for k in expr.keywords)]
        if values:
            return self.values.container(values, expr, scope)
        return self.values.of(expr.args[0], scope) if expr.args else OTHER

    def _library(
        self, kind: Kind, canonical: str, expr: ast.Call, scope: Scope
    ) -> Value:
        if canonical in CONTAINERS:
            whole = self.values.container(expr.args, expr, scope)
            return Value(kind, expr, canonical, held=whole.held)
        wraps = kind is Kind.MODEL and canonical.endswith(_WRAPS)
        if not wraps:
            return Value(kind, expr, canonical)
        inner = next(
            (
                self.values.of(a, scope)
                for a in expr.args
                if self.values.kind(a, scope) is Kind.MODEL
            ),
            None,
        )
        if inner is None:
            return Value(kind, expr, canonical)
        return Value(kind, expr, canonical, inner.cls, inner.foreign)

    def _kept(self, expr: ast.Call, scope: Scope) -> Value:
        """`Net().to(device)` and `copy.deepcopy(net)` are what they are made from, where that is a
        module or an object.
        """
        if self.module.canonical(expr.func) in _COPIES and expr.args:
            return self.values.of(expr.args[0], scope)
        if not (
            isinstance(expr.func, ast.Attribute)
            and expr.func.attr in GIVES_MODULE
        ):
            return UNKNOWN
        value = self.values.of(expr.func.value, scope)
        return (
            value
            if value.kind in (Kind.MODEL, Kind.CRITERION, Kind.OBJECT)
            else UNKNOWN
        )

    def _guessed(self, expr: ast.Call, scope: Scope) -> Value:
        """An unknown maker whose arguments tell: something made of an optimizer is a scheduler
        when it is called so.
        """
        name = (dotted_name(expr.func) or "").rpartition(".")[2]
        given = [*expr.args, *(k.value for k in expr.keywords)]
        # The name is asked first: what the arguments are may take a look at the whole program.
        called = scheduler_name(name) and "optim" not in name.lower()
        if (called or name.endswith("LR")) and any(
            self.values.kind(a, scope) is Kind.OPTIMIZER for a in given
        ):
            return Value(Kind.SCHEDULER, expr, name)
        if name.endswith("Loss") and name[:1].isupper():
            return Value(Kind.CRITERION, expr, name)
        return UNKNOWN

    def callees(self, call: ast.Call, scope: Scope) -> tuple[Function, ...]:
        """The same as `callee`, and the methods of heirs that `self.method()` may run instead."""
        function = self.callee(call, scope)
        if function is None:
            return ()
        holder = (
            call.func.value if isinstance(call.func, ast.Attribute) else None
        )
        own = (
            self.values.of(holder, scope)
            if isinstance(holder, ast.Name)
            else UNKNOWN
        )
        if own.cls is None or own.origin is not None:
            return (function,)
        assert isinstance(holder, ast.Name)
        heirs = self.graph.own_classes(own.cls, holder.id, scope)
        methods = (self.graph.method(heir, function.name) for heir in heirs)
        return tuple(
            dict.fromkeys(
                [function, *(one for one in methods if one is not None)]
            )
        )

    def callee(self, call: ast.Call, scope: Scope) -> Function | None:
        """The function or method in this module that `call` runs, remembered."""
        key = (call, scope)
        if key in self._callees:
            return self._callees[key]
        found = self._callee(call, scope)
        # A value that is known stays, "unknown" only where no question is open.
        if found is not None or not any_open():
            self._callees[key] = found
        return found

    def _callee(self, call: ast.Call, scope: Scope) -> Function | None:
        """The function that a call runs: named, a method of what is known, or held by a name."""
        func = call.func
        linked = self.graph.function_at(func, scope)
        if linked is not None or not isinstance(
            func, (ast.Name, ast.Attribute)
        ):
            return linked
        called = self._call_method(func, scope)
        if called is None and isinstance(func, ast.Name):
            return held_function(self.graph, func, scope)
        if called is not None or isinstance(func, ast.Name):
            return called
        if (
            isinstance(func.value, ast.Call)
            and isinstance(func.value.func, ast.Name)
            and func.value.func.id == "super"
        ):
            around = self.graph.class_around(scope)
            bases = self.graph.lineage(around)[1:] if around is not None else []
            return next(
                (
                    m
                    for base in bases
                    if (m := self.graph.method(base, func.attr))
                ),
                None,
            )
        named = self.graph.class_named(func.value, scope)
        if named is not None:
            return self._of_class(call, named, func.attr)
        holder = self.values.of(func.value, scope)
        if holder.cls is None:
            return None
        found = self.graph.method(holder.cls, func.attr) or self._in_heirs(
            holder.cls, func.attr
        )
        # What a property returns is called, not the property.
        return found if found is None or not is_property(found) else None

    def _of_class(
        self, call: ast.Call, cls: ast.ClassDef, name: str
    ) -> Function | None:
        """`Engine.load(path)` of a static method, `Engine.step(engine, x)` of another, which gets
        its object, too.
        """
        found = self.graph.method(cls, name)
        if found is None:
            return None
        is_bound = self.module.scopes[found].self_name is not None
        return found if not is_bound or gives_self(call, found) else None

    def _call_method(self, func: ast.expr, scope: Scope) -> Function | None:
        """`__call__` of an object that is no model, and so is called itself."""
        if (
            not self._called_classes
            or self.graph.class_named(func, scope) is not None
        ):
            return None
        value = self.values.of(func, scope)
        own = (
            value.cls in self._called_classes
            if value.cls is not None
            else False
        )
        return (
            self.graph.method(value.cls, "__call__")
            if value.cls is not None and own
            else None
        )

    @cached_property
    def _called_classes(self) -> frozenset[ast.ClassDef]:
        """The classes whose objects are called by a `__call__` of the program."""
        return frozenset(
            c for c in self.graph.classes() if self.graph.method(c, "__call__")
        )

    def _in_heirs(self, cls: ast.ClassDef, name: str) -> Function | None:
        """The method that all heirs share which have one of that name, where the class has none."""
        methods = [
            m
            for heir in self.graph.heirs(cls)
            if (m := self.graph.method(heir, name))
        ]
        return methods[0] if len({id(m) for m in methods}) == 1 else None


def is_property(function: Function) -> bool:
    """Whether a method is read like an attribute."""
    names = [dotted_name(mark) or "" for mark in function.decorator_list]
    return any(
        name.rpartition(".")[2] in ("property", "cached_property")
        for name in names
    )


def is_accessor(function: Function) -> bool:
    """Whether a method is what an attribute is read or set by: `@loss.setter`."""
    marks = [dotted_name(one) or "" for one in function.decorator_list]
    ends = {one.rpartition(".")[2] for one in marks if "." in one}
    return is_property(function) or "setter" in ends
