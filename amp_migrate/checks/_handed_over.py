"""What callers hand over for an optimizer: as an argument, to a constructor, or in a collection."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.torch_facts.iteration import MAPPING_VIEWS

_HOPS = 3


def handed_over(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> Iterator[tuple[CallSite, ast.expr]]:
    """The calls that give a parameter its value, or an attribute through the constructor, and the
    argument of each; of one after the other of a collection, what the collection is given.
    """
    if isinstance(expr, ast.Name):
        home = scope.lookup(expr.id)
        if home is None:
            return
        bindings = home.bindings[expr.id]
        if all(one.how == "for" and one.value for one in bindings) and hops:
            for one in bindings:
                assert one.value is not None
                held = _collection(one.value)
                yield from handed_over(program, held, home, hops - 1)
        elif home is scope and {b.how for b in bindings} == {"parameter"}:
            yield from _arguments(program, expr.id, scope)
    elif isinstance(expr, ast.Attribute):
        yield from _constructed_with(program, expr, scope)


def _collection(iterated: ast.expr) -> ast.expr:
    """What `held.items()` goes through; else the expression itself."""
    match iterated:
        case ast.Call(func=ast.Attribute(value=held, attr=view)):
            return held if view in MAPPING_VIEWS else iterated
        case _:
            return iterated


def _arguments(
    program: Program, name: str, scope: Scope
) -> Iterator[tuple[CallSite, ast.expr]]:
    function = scope.node
    if not isinstance(function, FUNCTIONS):
        return
    for site in program.graph.sites(function):
        given = argument(site.call, scope, name, site.bound)
        if (
            given is not None
            and program.values.callee(site.call, site.scope) is function
        ):
            for one in _parts(given):
                yield site, one


def _constructed_with(
    program: Program, expr: ast.Attribute, scope: Scope
) -> Iterator[tuple[CallSite, ast.expr]]:
    cls = program.graph.class_around(scope)
    if cls is None or dotted_name(expr.value) != scope.self_name:
        return
    for owner in program.graph.lineage(cls):
        held = program.module.scopes[owner].bindings.get(f"self.{expr.attr}")
        if held:
            break
    begin = program.graph.method(cls, "__init__")
    value = held[0].value if held and len(held) == 1 else None
    if begin is None or value is None:
        return
    inner = program.scope(begin)
    if program.module.scope_of(value) is not inner:
        return
    names = {one.id for one in _parts(value) if isinstance(one, ast.Name)}
    for one in program.graph.heirs(cls):
        for call, caller in program.graph.constructions(one):
            for name in sorted(names):
                given = argument(call, inner, name, True)
                for part in _parts(given) if given is not None else ():
                    yield CallSite(call, caller, True), part


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """A value, or what it may be of: the arms of a choice, the elements of a display."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            yield from _parts(body)
            yield from _parts(orelse)
        case ast.Dict(values=held) | ast.List(elts=held) | ast.Tuple(elts=held):
            for one in held:
                yield from _parts(one)
        case _:
            yield value
