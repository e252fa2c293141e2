"""The classes that a model's layers may be of: what its class names, what its constructor is given,
and what the functions name that it calls.

Which layer a call runs is often decided at run time: `self.layers[i](x)` after a loop over a
configuration that appends one class or another.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.found_by_name import found_by_name
from amp_migrate.model.dataflow.sources import held, put_into
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

Place: TypeAlias = "tuple[Program, ast.AST, Scope]"
"""A class, a function, or the value of a table, with the scope that its names are looked up in."""
Layer: TypeAlias = "tuple[Program, ast.ClassDef]"
_MOST = 1000
_PLACES = (ast.Dict, ast.List, ast.Tuple, ast.ListComp, ast.Call, ast.Name)


def layers(program: Program, cls: ast.ClassDef) -> tuple[Layer, ...]:
    """The class itself, and those that its layers may be of, each with the program that it stands
    in: this one, or a neighbour's for another file of the project.
    """
    return program.remembered(
        (layers, cls),
        lambda: tuple(
            _found_layers((program, cls, program.module.scopes[cls]))
        ),
    )


def layers_made(program: Program, made: ast.expr) -> tuple[Layer, ...]:
    """The same of what an expression makes, `build_flow(args)`: a factory gives a model the layers
    that its class does not name.
    """
    scope = program.module.scope_of(made)
    return program.remembered(
        (layers_made, made),
        lambda: tuple(_found_layers((program, made, scope))),
    )


def _found_layers(start: Place) -> Iterator[Layer]:
    wanted: list[Place] = [start]
    seen: set[ast.AST] = {start[1]}
    for home, place, scope in wanted:  # grows while it is read
        if isinstance(place, ast.ClassDef):
            yield home, place
        for one in _named_once(home, place, scope):
            if one[1] not in seen and len(wanted) < _MOST:
                seen.add(one[1])
                wanted.append(one)


def _named_once(
    home: Program, place: ast.AST, scope: Scope
) -> tuple[Place, ...]:
    """Classes share what they lead to: each place is read once, whoever leads there."""
    return home.remembered(
        (_named, place, scope), lambda: tuple(_named(home, place, scope))
    )


def _named(home: Program, place: ast.AST, scope: Scope) -> Iterator[Place]:
    """The classes and tables that a place names, and the functions that it calls."""
    names = _Names(home, place)
    for node in nodes_in(place):
        inner = names.scope_of(node, scope)
        if isinstance(node, ast.Call):
            yield from _defined(home, node.func, inner, FUNCTIONS)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield from _defined(home, node, inner, (ast.ClassDef,))
            yield from names.tables(node, inner)
    for where, found in found_by_name(home, place, scope):
        yield where, found, where.module.scopes[found]


def _defined(
    home: Program, name: ast.expr, scope: Scope, kinds: tuple[type, ...]
) -> Iterator[Place]:
    own = home.graph.class_named(name, scope) or home.graph.function_at(
        name, scope
    )
    found = (home, own) if own is not None else home.values.abroad(name, scope)
    if found is not None and isinstance(found[1], kinds):
        yield *found, found[0].module.scopes[found[1]]


class _Names:
    """The names of a place, of which most hold what the place itself says."""

    def __init__(self, home: Program, place: ast.AST) -> None:
        self.home = home
        self.place = place
        self._own: dict[Scope, bool] = {}

    def scope_of(self, node: ast.AST, otherwise: Scope) -> Scope:
        """The scope that evaluates a node; `otherwise` for one that was made on the way."""
        if node not in self.home.module.parents:
            return otherwise
        return self.home.module.scope_of(node)

    def tables(
        self, name: ast.Name | ast.Attribute, scope: Scope
    ) -> Iterable[Place]:
        """What a name holds that the place does not say itself."""
        dotted = dotted_name(name)
        if dotted is None or dotted == scope.self_name:
            return ()
        head, _, rest = dotted.partition(".")
        home = scope.lookup(head)
        if home is None:
            return _tables(self.home, name, scope)
        hows = {one.how for one in home.bindings.get(head, ())}
        if hows == {"import"} and home.parent is None:
            return self.home.remembered(
                (_Names, home, dotted),
                lambda: tuple(_tables(self.home, name, scope)),
            )
        if head == scope.self_name:
            is_own = self._is_own_attribute(rest, scope)
        else:
            is_own = not rest and "parameter" not in hows and self._is_own(home)
        return () if is_own else _tables(self.home, name, scope)

    def _is_own_attribute(self, attribute: str, scope: Scope) -> bool:
        """Whether the class that is the place sets an attribute, and no base or heir of it."""
        graph, scopes = self.home.graph, self.home.module.scopes
        cls, key = graph.class_around(scope), f"self.{attribute}"
        if cls is None or cls is not self.place or "." in attribute:
            return False
        family = {*graph.lineage(cls), *graph.heirs(cls)} - {cls}
        return not any(
            key in scopes[one].bindings or key in scopes[one].stored
            for one in family
        )

    def _is_own(self, scope: Scope) -> bool:
        """Whether a scope is that of the place, or within it: all that it binds is read anyway."""
        if scope not in self._own:
            node = scope.node
            above = self.home.module.ancestors
            self._own[scope] = not isinstance(node, ast.Module) and (
                node is self.place or self.place in above(node)
            )
        return self._own[scope]


def _tables(home: Program, name: ast.expr, scope: Scope) -> Iterator[Place]:
    """`LAYERS` of `LAYERS[kind](size)`: a dictionary or a list at the top of a file; and what a
    constructor is given, as the list of layers that its callers filled.
    """
    for where, value, inside in held(home, name, scope):
        if isinstance(value, _PLACES):
            yield where, value, inside
    yield from put_into(home, name, scope)
