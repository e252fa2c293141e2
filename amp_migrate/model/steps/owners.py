"""Which optimizer holds the parameters of which model: by its constructor; failing that, by their
names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope

_ROLE = {
    "optimizer",
    "optim",
    "opt",
    "optimiser",
    "solver",
    "net",
    "network",
    "model",
    "self",
    "param",
    "",
    "module",
    "torch",
}


_ADDS = ("append", "extend")
_DEEP = 2
"""How many variables are looked through for the parameters that an optimizer is made of."""


class Owners:
    """Answers for the optimizers of one analysis, known by their identities."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.optimizers: dict[str, tuple[ast.expr, Scope]] = {}
        self._built: dict[str, frozenset[str]] = {}
        self._selecting: set[str] = set()
        """Those of parameters that a loop picks out of a model's."""

    def add(self, name: str, expr: ast.expr, scope: Scope) -> None:
        """Remember an optimizer."""
        self.optimizers.setdefault(name, (expr, scope))

    def fed(
        self, models: frozenset[str], among: list[str], *, only_backward: bool
    ) -> list[str] | None:
        """Which optimizers get gradients for their parameters from outputs of `models`; None where
        that cannot be told.
        """
        if len(among) <= 1:
            return among
        if not models or "?" in models:
            return among if only_backward else None
        claims = {
            name: {m for m in models if self.claims(name, m)} for name in among
        }
        unclaimed = models - {m for claimed in claims.values() for m in claimed}
        generic = [name for name in among if not self._is_specific(name)]
        partly = any(claims[n] and n in self._selecting for n in among)
        found = [
            n
            for n in among
            if claims[n]
            or (
                n in generic
                and (unclaimed or partly)
                and self._same_turn(n, models)
            )
        ]
        if only_backward and found:
            rest = (one for one in among if one not in found)
            found += [one for one in rest if self._is_within(one, models)]
        return found or (among if only_backward else None)

    def _is_within(self, name: str, models: Iterable[str]) -> bool:
        """Whether the optimizer is made of parts of one of `models`: of `net.encoder`, where the
        loss comes from `net`.
        """
        wholes = [_words(model.rpartition(":")[2]) for model in models]
        parts = [_words(one) for one in self._parameters(name)]
        return any(
            whole and len(part) > len(whole) and part[: len(whole)] == whole
            for whole in wholes
            for part in parts
        )

    def claims(self, name: str, model: str) -> bool:
        """Whether the optimizer is made of parameters of `model`, or is named after it."""
        turn = re.search(r"\[\d\]", name)
        if turn is not None and re.search(r"\[\d\]", model) is not None:
            return turn[0] in model
        built = self._parameters(name)
        if built:
            return any(
                _holds(_words(model.rpartition(":")[2]), _words(b))
                for b in built
            )
        return any(_alike(a, b) for a in _core(name) for b in _core(model))

    def _is_specific(self, name: str) -> bool:
        return bool(self._parameters(name) or _core(name))

    def _same_turn(self, name: str, models: frozenset[str]) -> bool:
        turn = re.search(r"\[\d\]", name)
        return (
            turn is None
            or not any(re.search(r"\[\d\]", m) for m in models)
            or any(turn[0] in m for m in models)
        )

    def _parameters(self, name: str) -> frozenset[str]:
        """Dotted names of the models whose parameters the constructor in sight was given."""
        if name not in self._built:
            expr, scope = self.optimizers[name]
            origin = self.program.values.of(expr, scope).origin
            origin = origin or self._bound(expr)
            found = set()
            for node in (
                self._given(origin) if isinstance(origin, ast.Call) else ()
            ):
                if isinstance(node, ast.Attribute) and node.attr in {
                    "parameters",
                    "named_parameters",
                }:
                    model = _unwrapped(node.value)
                    if self._is_gone_through(node):
                        self._selecting.add(name)
                    found.add(dotted_name(model) or "?")
                    found |= self._kept_as(model)
            self._built[name] = (
                frozenset() if "?" in found else frozenset(found)
            )
        return self._built[name]

    def _is_gone_through(self, parameters: ast.Attribute) -> bool:
        """Whether a loop takes the parameters one by one, and may leave some to others."""
        parents = self.program.module.parents
        call = parents.get(parameters)
        loop = parents.get(call) if call is not None else None
        return isinstance(loop, ast.For) and loop.iter is call

    def _given(self, expr: ast.expr, deep: int = _DEEP) -> Iterator[ast.AST]:
        """The nodes of an expression, and of what its names have been given before."""
        for node in ast.walk(expr):
            yield node
            if (
                deep
                and isinstance(node, ast.Name)
                and node in self.program.module.parents
            ):
                held = self.program.reaching.at(node, node.id).bindings
                values = [one.value for one in held if one.value is not expr]
                for value in (*values, *self._added(node)):
                    if value is not None:
                        yield from self._given(value, deep - 1)

    def _added(self, name: ast.Name) -> Iterator[ast.expr]:
        """What a list has got since: `params.extend(net.parameters())`."""
        for call in self.program.module.scope_of(name).calls:
            func = call.func
            if (
                isinstance(func, ast.Attribute)
                and func.attr in _ADDS
                and isinstance(func.value, ast.Name)
                and func.value.id == name.id
            ):
                yield from call.args

    def _bound(self, expr: ast.expr) -> ast.expr | None:
        """What a name is given once, be it made by code out of sight."""
        if not isinstance(expr, ast.Name):
            return None
        if expr not in self.program.module.parents:
            return None
        held = self.program.reaching.at(expr, expr.id).bindings
        return part_of(held[0]) if len(held) == 1 else None

    def _kept_as(self, expr: ast.expr) -> set[str]:
        """The attributes that keep what a parameter of a constructor is: `self.net = net`."""
        scope = self.program.module.scope_of(expr)
        around = self.program.graph.class_around(scope)
        home = self.program.module.scopes.get(around) if around else None
        name = expr.id if isinstance(expr, ast.Name) else ""
        if home is None or name not in {one.arg for one in scope.parameters()}:
            return set()
        return {
            own
            for own, bound in home.bindings.items()
            for one in bound
            if isinstance(value := part_of(one), ast.Name)
            and value.id == name
            and self.program.module.scope_of(value) is scope
        }

    def alike(self, name: str, among: list[str]) -> list[str]:
        """The optimizers of the same parameters, or of parts of them: who clears one of them clears
        all.
        """
        own = self._whole_model(name)
        if own is None:
            return [name]
        whole = [str(own[0])]
        same = [
            one
            for one in among
            if own == self._whole_model(one) or self._is_within(one, whole)
        ]
        same = [one for one in same if not self._are_apart(name, one)]
        return list(dict.fromkeys((name, *same)))

    def _are_apart(self, name: str, other: str) -> bool:
        """Whether two objects of a class keep each its own: `actor.optimizer`, `critic.optimizer`,
        made by one line of their constructor.
        """
        made = self.optimizers[name][0] is self.optimizers[other][0]
        holder, _, last = name.rpartition(".")
        another, _, word = other.rpartition(".")
        return made and last == word and holder != another

    def _whole_model(self, name: str) -> tuple[object, ...] | None:
        """`net` of `Adam(net.parameters())`, and where that has its value from."""
        expr, scope = self.optimizers[name]
        made = self.program.values.of(expr, scope).origin
        given = (
            made.args[0] if isinstance(made, ast.Call) and made.args else None
        )
        if not isinstance(given, ast.Call) or given.args or given.keywords:
            return None
        func = given.func
        if not isinstance(func, ast.Attribute) or func.attr != "parameters":
            return None
        model = dotted_name(func.value)
        if model is None or func not in self.program.module.parents:
            return None
        reach = self.program.reaching.at(func.value, model)
        return (model, *reach.bindings) if reach.bindings else None

    def of_models(
        self, models: Iterable[str], among: list[str]
    ) -> list[str] | None:
        """Optimizers of the parameters that an expression mentions; None where that cannot be
        told.
        """
        if len(among) <= 1:
            return among
        models = list(models)
        named = {n for n in among for m in models if self.claims(n, m)}
        named |= {n for n in among if self._is_within(n, models)}
        holders = {model.rpartition(".")[0] for model in models}
        own = [n for n in named if n.rpartition(".")[0] in holders]
        others = {n for n in named for one in own if self._are_apart(n, one)}
        return [n for n in among if n in named - others.difference(own)] or None


def _unwrapped(model: ast.expr) -> ast.expr:
    """`net` of `unwrap(net)`"""
    while isinstance(model, ast.Call) and len(model.args) == 1:
        model = model.args[0]
    return model


def part_of(binding: Binding) -> ast.expr | None:
    """What a binding gives, of `self.net, self.head = net, head` as well."""
    value, index = binding.value, binding.index
    if index is None:
        return value
    parts = value.elts if isinstance(value, ast.Tuple) else []
    return parts[index] if index < len(parts) else None


def _holds(path: tuple[str, ...], part: tuple[str, ...]) -> bool:
    """`agent.model.encoder` holds `model`, `model.encoder` and `encoder`."""
    return any(
        path[i : i + len(part)] == part
        for i in range(len(path) - len(part) + 1)
    )


def _words(name: str) -> tuple[str, ...]:
    return tuple(w for w in name.split(".") if w not in {"self", "module"})


def _core(name: str) -> list[str]:
    """The words of a name that tell which of several it is: `optimizer_G` -> `g`."""
    last = name.rpartition(":")[2].rpartition(".")[2]
    spaced = re.sub(r"([a-z])([A-Z])", r"\1_\2", last)
    words = [
        w
        for w in re.split(r"[^A-Za-z]+", spaced.lower())
        if w not in _ROLE and w.removesuffix("s") not in _ROLE
    ]
    return [
        re.sub(r"^(net|optim|opt)(?=.)|(net|optim|opt|optimizer)$", "", w) or w
        for w in words
    ]


def _alike(a: str, b: str) -> bool:
    if a == b:
        return True
    short, long = sorted((a, b), key=len)
    return long.startswith(short) and (len(short) == 1 or len(short) >= 3)
