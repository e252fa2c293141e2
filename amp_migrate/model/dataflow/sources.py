"""Where the value of a name may come from: every assignment that reaches it, what all callers give
for a parameter, what an iterable holds, and a variable's value in another file of the project.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.variables import imported_variable
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope, returned

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

Part: TypeAlias = "tuple[Program, ast.expr, Scope]"
"""An expression, with the program and the scope that evaluate it."""
_HOPS = 4


def held(program: Program, name: ast.expr, scope: Scope) -> tuple[Part, ...]:
    """The expressions whose values a name or attribute may hold: of a loop's target, what it
    iterates over. A name that leads back to itself, `x, cache = x` in a loop, adds nothing.
    """
    asked = program.remembered(held, _Asked)
    key = (name, scope)
    if key in asked.known:
        return asked.known[key]
    if key in asked.open:
        asked.is_partial = True
        return ()
    asked.open.add(key)
    try:
        found = tuple(_held(program, name, scope))
    finally:
        asked.open.discard(key)
    # What rests on a question that is open still is no answer by itself.
    if not asked.open or not asked.is_partial:
        asked.known[key] = found
    asked.is_partial &= bool(asked.open)
    return found


class _Asked:
    """The questions after what names hold: those that are answered, and those that are open."""

    def __init__(self) -> None:
        self.known: dict[tuple[ast.expr, Scope], tuple[Part, ...]] = {}
        self.open: set[tuple[ast.expr, Scope]] = set()
        self.is_partial = False


def put_into(program: Program, name: ast.expr, scope: Scope) -> Iterator[Part]:
    """What is appended to a variable, or to an attribute of the object, or stored in it."""
    yield from (part for _, part in stored(program, name, scope))


def stored(
    program: Program, name: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr | None, Part]]:
    """The same, with the key under which it is stored."""
    dotted = dotted_name(name) or ""
    head, _, rest = dotted.partition(".")
    cls = program.graph.class_around(scope) if rest else None
    home = (
        program.module.scopes[cls]
        if cls is not None and head == scope.self_name
        else scope.lookup(dotted)
    )
    key = f"self.{rest}" if rest else dotted
    for one in home.stored.get(key, ()) if home is not None else ():
        if one.value in program.module.parents:
            where = program.module.scope_of(one.value)
            yield one.key, (program, one.value, where)


def _held(program: Program, name: ast.expr, scope: Scope) -> Iterator[Part]:
    for binding in program.reaching.at(name, dotted_name(name) or "").bindings:
        # A base class of another file binds it there, where nothing of this program is asked.
        if (
            binding.value is not None
            and binding.value in program.module.parents
        ):
            yield from bound(program, binding, binding.value)
        elif binding.how == "parameter":
            yield from _given(program, binding)
    yield from _abroad(program, name, scope)


def bound(
    program: Program, binding: Binding, value: ast.expr
) -> tuple[Part, ...]:
    """What a binding takes from its value: of `sound, frame = nets` what it picks, where all that
    the tuple may be is written out, else all of it.
    """
    whole = program, value, program.module.scope_of(value)
    if binding.how != "assign" or binding.index is None:
        return (whole,)
    displays = list(_displays(whole, _HOPS))
    picked = tuple(
        (home, expr.elts[binding.index], scope)
        for home, expr, scope in displays
        if isinstance(expr, (ast.Tuple, ast.List))
        and -len(expr.elts) <= binding.index < len(expr.elts)
        and not any(isinstance(one, ast.Starred) for one in expr.elts)
    )
    return picked if len(picked) == len(displays) else (whole,)


def _displays(whole: Part, hops: int) -> Iterator[Part]:
    """What a name was bound to, as far back as it has no other name, and what a function in sight
    gives back.
    """
    program, expr, scope = whole
    found = _before(whole) if hops else ()
    if not found or next(put_into(program, expr, scope), None) is not None:
        yield whole
        return
    for one in found:
        yield from _displays(one, hops - 1)


def _before(whole: Part) -> tuple[Part, ...]:
    program, expr, scope = whole
    if isinstance(expr, (ast.Name, ast.Attribute)):
        return held(program, expr, scope)
    if not isinstance(expr, ast.Call):
        return ()
    return tuple(
        (program, one, program.scope(function))
        for function in program.values.callees(expr, scope)
        for one in returned(function)
    )


def _given(program: Program, binding: Binding) -> Iterator[Part]:
    """What callers give for a parameter, and its default."""
    if not isinstance(binding.statement, ast.arg):
        return
    inner = program.module.scope_of(binding.statement)
    if not isinstance(inner.node, FUNCTIONS):
        return
    name = binding.statement.arg
    default = default_of(inner.node, name)
    if default is not None:
        yield program, default, inner.parent or inner
    for call, where, bound in program.reaching.entry.sites(inner.node):
        given = argument(call, inner, name, bound)
        if given is not None and given in program.module.parents:
            yield program, given, where
        elif given is None:
            contents = program.values.contents
            for one, there in contents.spread(call, name, where):
                yield program, one, there


def _abroad(program: Program, name: ast.expr, scope: Scope) -> Iterator[Part]:
    """What an imported variable is given in the file that makes it."""
    found = imported_variable(program, dotted_name(name) or "", scope)
    home, bindings = found if found is not None else (program, ())
    for binding in bindings:
        if binding.value is not None:
            yield home, binding.value, home.module.scope_of(binding.value)
