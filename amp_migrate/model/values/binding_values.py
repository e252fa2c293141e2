"""What the bindings of a name give it: assigned values, elements, what callers pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import (
    argument,
    default_of,
    rest_arguments,
)
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned_at,
)
from amp_migrate.model.values.kinds import UNKNOWN, Kind, Value
from amp_migrate.model.values.unpacked import is_told

if TYPE_CHECKING:
    from amp_migrate.model.values.value_kinds import Values

_HOPS = 3
_ANY_MODULE = "torch.nn.Module"
"""As an annotation it says that there is a model; which one the callers say."""


class BindingValues:
    """Answers `of` for the bindings of one program."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.module = values.module
        self.graph = values.graph

    def of(self, binding: Binding, name: str, home: Scope) -> Value:
        """What one binding gives to `name`, its value being evaluated in `home`."""
        if binding.how == "parameter":
            return self._parameter(name, home)
        if binding.value is None or binding.how in ("augmented", "with"):
            return UNKNOWN
        if binding.how == "for":
            return self._loop_target(binding, home)
        if binding.index is not None:
            return self._unpacked(binding.value, binding.index, home)
        return self.values.of(binding.value, home)

    def _loop_target(self, binding: Binding, home: Scope) -> Value:
        iterable = binding.value
        assert iterable is not None
        index = binding.index
        if (
            isinstance(iterable, ast.Call)
            and isinstance(iterable.func, ast.Name)
            and index is not None
        ):
            if iterable.func.id == "zip" and index < len(iterable.args):
                return self.values.one_of(iterable.args[index], None, home)
            if iterable.func.id == "enumerate" and index == 1 and iterable.args:
                return self.values.one_of(iterable.args[0], None, home)
        if isinstance(iterable, ast.Call) and isinstance(
            iterable.func, ast.Attribute
        ):
            if iterable.func.attr in ("values", "items") and index in (None, 1):
                return self.values.one_of(iterable.func.value, None, home)
        if index is not None:
            return UNKNOWN
        return self.values.one_of(iterable, None, home)

    def _unpacked(self, value: ast.expr, index: int, home: Scope) -> Value:
        functions = (
            self.values.callees(value, home)
            if isinstance(value, ast.Call)
            else ()
        )
        if not functions:
            return self._part_of_value(value, index, home)
        return self.values.join(
            self.values.of(expr, self.module.scopes[function])
            for function in functions
            for expr in returned_at(function, index)
        )

    def _part_of_value(self, value: ast.expr, index: int, home: Scope) -> Value:
        whole = self.values.of(value, home)
        if whole.kind is Kind.OPTIMIZERS:
            return self.values.element(whole, home)
        if isinstance(value, ast.Name):
            return self._listed(value, index, home)
        if not isinstance(value, ast.Call):
            return UNKNOWN
        return self.values.calls.part_made_abroad(value, index, home)

    def _listed(self, whole: ast.Name, index: int, scope: Scope) -> Value:
        """What stands at one place of each list that a name may hold: `net, critic = nets`."""
        found = []
        for made, where in self._makers(whole, scope, _HOPS):
            if not isinstance(made, (ast.List, ast.Tuple)):
                return UNKNOWN
            if not is_told(made, index):
                return UNKNOWN
            found.append(self.values.of(made.elts[index], where))
        return self.values.join(found)

    def _makers(
        self, expr: ast.expr, scope: Scope, hops: int
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """What a name is given, by assignments and callers; the name, where that is not told."""
        home = scope.lookup(expr.id) if isinstance(expr, ast.Name) else None
        if home is None or not isinstance(expr, ast.Name) or not hops:
            yield expr, scope
            return
        if home.stored.get(expr.id):  # `nets[0] = other`
            yield expr, home
        for binding in home.bindings[expr.id]:
            value = binding.value
            if binding.how == "parameter":
                yield from self._arguments(expr, home, hops)
            elif binding.how == "assign" and binding.index is None and value:
                yield from self._makers(value, home, hops - 1)
            else:
                yield expr, scope

    def _arguments(
        self, parameter: ast.Name, home: Scope, hops: int
    ) -> Iterator[tuple[ast.expr, Scope]]:
        """What callers pass for a parameter."""
        if not isinstance(home.node, FUNCTIONS):
            return
        for call, where, bound in self._sites(home.node):
            given = argument(call, home, parameter.id, bound)
            if given is None:
                yield parameter, home
            else:
                yield from self._makers(given, where, hops - 1)

    def _parameter(self, name: str, home: Scope) -> Value:
        """From the annotation, the callers, the default, and what the function does with it."""
        node = home.node
        if not isinstance(node, FUNCTIONS):
            return UNKNOWN
        annotated = self._annotation(name, home)
        values = []
        for call, scope, bound in self._sites(node):
            if self._is_of(call, name, home, scope):
                continue
            rest = rest_arguments(call, home, name, bound)
            if rest is not None:
                values.append(self.values.container(rest, call, scope))
                continue
            given = argument(call, home, name, bound)
            if given is not None:
                values.append(self.values.of(given, scope))
            else:
                spread = self.values.contents.spread(call, name, scope)
                values += [self.values.of(*one) for one in spread]
        if annotated and annotated.name == _ANY_MODULE:
            return next(
                (one for one in values if one.kind is annotated.kind), annotated
            )
        if annotated:  # nothing keeps a caller from passing something else
            return self.values.join([annotated, *values])
        return self.values.join(values) or self.values.join(
            [self._default(name, home)]
        )

    def given(self, name: str, home: Scope) -> list[tuple[ast.expr, Scope]]:
        """The names that callers pass for a parameter, or that are assigned to a variable."""
        found: list[tuple[ast.expr, Scope]] = []
        for binding in home.bindings.get(name, ()):
            if binding.how == "parameter" and isinstance(home.node, FUNCTIONS):
                passed = (
                    (argument(call, home, name, bound), scope)
                    for call, scope, bound in self._sites(home.node)
                )
                found += [
                    (expr, scope)
                    for expr, scope in passed
                    if isinstance(expr, (ast.Name, ast.Attribute))
                ]
            elif (
                binding.how == "assign"
                and isinstance(binding.value, (ast.Name, ast.Attribute))
                and binding.index is None
            ):
                found.append((binding.value, home))
        return found

    def _is_of(
        self, call: ast.Call, name: str, home: Scope, scope: Scope
    ) -> bool:
        """`scaler.step(optimizer)` in `def step(self, scaler)`, or in what that hands its scaler
        to: what is called is the parameter's own method, which happens to have the function's name.
        """
        func = call.func
        holder = func.value if isinstance(func, ast.Attribute) else None
        return isinstance(holder, ast.Name) and self._gets(
            holder.id, scope, name, home, _HOPS
        )

    def _gets(
        self, own: str, scope: Scope, name: str, home: Scope, hops: int
    ) -> bool:
        """Whether a variable of a function is a parameter of another, or gets it from there."""
        if scope is home:
            return own == name
        bound = scope.bindings.get(own, ())
        function = scope.node
        is_given = [one.how for one in bound] == ["parameter"]
        if not hops or not is_given or not isinstance(function, FUNCTIONS):
            return False
        return any(
            isinstance(given, ast.Name)
            and self._gets(given.id, site.scope, name, home, hops - 1)
            for site in self.graph.sites(function)
            for given in (argument(site.call, scope, own, site.bound),)
        )

    def _sites(self, function: Function) -> list[tuple[ast.Call, Scope, bool]]:
        """The calls that run a function; of a constructor, those that make objects."""
        owner = self.module.scopes[function].owner
        if (
            function.name == "__init__"
            and owner is not None
            and isinstance(owner.node, ast.ClassDef)
        ):
            return self.graph.constructors.of(function, owner.node)
        return [
            (site.call, site.scope, site.bound)
            for site in self.graph.runs(function)
        ]

    def _annotation(self, name: str, home: Scope) -> Value:
        found = next(
            (a.annotation for a in home.parameters() if a.arg == name), None
        )
        return self.annotated(found, home) if found is not None else UNKNOWN

    def annotated(self, found: ast.expr, home: Scope) -> Value:
        """What an annotation promises."""
        canonical = self.module.canonical(found) or ""
        named = {
            "torch.device": Kind.DEVICE,
            "torch.optim.Optimizer": Kind.OPTIMIZER,
            "torch.nn.Module": Kind.MODEL,
            "torch.amp.GradScaler": Kind.SCALER,
            "torch.cuda.amp.GradScaler": Kind.SCALER,
        }
        if canonical in named:
            return Value(named[canonical], None, canonical)
        if isinstance(found, ast.Name) and found.id == "int":
            return Value(Kind.INDEX)
        cls = self.graph.class_named(found, home)
        if cls is not None:
            return self.values.instance(cls, None)
        abroad = self.values.abroad(found, home)
        if abroad is None or not isinstance(abroad[1], ast.ClassDef):
            return UNKNOWN
        return Value(
            abroad[0].values.class_kind(abroad[1]),
            None,
            abroad[1].name,
            foreign=(abroad[0], abroad[1]),
        )

    def _default(self, name: str, home: Scope) -> Value:
        assert isinstance(home.node, FUNCTIONS)
        default = default_of(home.node, name)
        return (
            self.values.of(default, home.parent or home)
            if default is not None
            else UNKNOWN
        )
