"""Where the value of a dotted name was made: `args.cuda` of a function and `self.args.cuda` of an
object that was given these `args` are one value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Binding
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

Bindings: TypeAlias = Callable[[str], tuple[Binding, ...]]
"""What may have given a dotted name its value, at one place."""

_HOPS = 8


class Origin(NamedTuple):
    """The expression or parameter that makes a value, and the attributes that are read of it."""

    made: ast.AST
    attributes: tuple[str, ...] = ()


def origin_at(program: Program, dotted: str, node: ast.expr) -> Origin | None:
    """Where the value that a name has at an expression was made, if all that is known of it says
    one place.
    """
    return _at(program, dotted, node, _HOPS)


def origin_of(
    program: Program, dotted: str, bindings: Bindings, hops: int = _HOPS
) -> Origin | None:
    """The same, for a place whose bindings are known."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        found = bindings(".".join(parts[:cut]))
        if found:
            rest = tuple(parts[cut:])
            origins = {
                one
                for binding in found
                for one in _of(program, binding, rest, hops)
            }
            return origins.pop() if len(origins) == 1 else None
    return None


def _at(
    program: Program, dotted: str, node: ast.expr, hops: int
) -> Origin | None:
    """The same within some hops, found once each: there are far more ways to a name than names."""

    def bindings(name: str) -> tuple[Binding, ...]:
        return program.reaching.at(node, name).bindings

    return program.remembered(
        (_at, dotted, node, hops),
        lambda: origin_of(program, dotted, bindings, hops),
    )


def _of(
    program: Program, binding: Binding, rest: tuple[str, ...], hops: int
) -> Iterator[Origin | None]:
    if binding.how == "parameter" and isinstance(binding.statement, ast.arg):
        yield from _given(program, binding.statement, rest, hops)
        return
    plain = binding.how in ("assign", "walrus") and binding.index is None
    if plain and binding.value is not None and hops:
        yield _behind(program, binding.value, rest, hops)
    else:
        yield None


def _behind(
    program: Program, value: ast.expr, rest: tuple[str, ...], hops: int
) -> Origin | None:
    """Where the value of an expression was made: itself, if it is no name."""
    named = dotted_name(value)
    if named is None:
        return Origin(_alike(program, value), rest)
    dotted = ".".join((named, *rest))
    return _at(program, dotted, value, hops - 1) or Origin(value, rest)


def _alike(program: Program, value: ast.expr) -> ast.expr:
    """One literal for all that are written alike: they make one value."""
    if not isinstance(value, ast.Constant):
        return value
    first: ast.expr = program.remembered(
        (_alike, ast.dump(value)), lambda: value
    )
    return first


def _given(
    program: Program, parameter: ast.arg, rest: tuple[str, ...], hops: int
) -> Iterator[Origin | None]:
    """What the callers in sight pass, where that is one value; else the parameter itself."""
    inner = program.module.scope_of(parameter)
    function = inner.node
    origins: set[Origin | None] = set()
    if isinstance(function, FUNCTIONS) and hops:
        for call, _, bound in program.reaching.entry.sites(function):
            given = argument(call, inner, parameter.arg, bound)
            given = given or default_of(function, parameter.arg)
            known = given is not None and given in program.module.parents
            origins.add(
                _behind(program, given, rest, hops)
                if known and given is not None
                else None
            )
    one = origins.pop() if len(origins) == 1 else None
    yield one or Origin(parameter, rest)
