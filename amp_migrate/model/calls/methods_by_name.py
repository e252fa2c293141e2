"""Methods that are found by their name alone: `getattr(hook, name)(trainer)`, where the calls
around say which names that may be, and `hook.after_step(trainer)` in a loop over hooks of which
nothing else is known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 3


def name_asked(
    program: Program, call: ast.Call, scope: Scope
) -> ast.expr | None:
    """What names the method that `getattr(hook, name)(...)` calls, in place or of a variable."""
    func: ast.expr | None = call.func
    if isinstance(func, ast.Name) and scope.lookup(func.id) is not None:
        bound = program.reaching.at(func, func.id).bindings
        func = bound[0].value if len(bound) == 1 else None
    if not isinstance(func, ast.Call) or len(func.args) < 2:
        return None
    looks_up = isinstance(func.func, ast.Name) and func.func.id == "getattr"
    asked = func.args[1]
    return None if not looks_up or isinstance(asked, ast.Constant) else asked


def methods_by_name(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Function, ...]:
    """The methods in sight that such a call may run, by the names that callers give."""
    asked = name_asked(program, call, scope)
    if asked is None:
        return _of_turns(program, call, scope)
    names = dict.fromkeys(_names(program, asked, scope, _HOPS))
    return tuple(
        one for name in names for one in program.graph.methods_named(name)
    )


def _of_turns(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Function, ...]:
    """The methods of the name that is called on one object after the other of an unknown kind."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not isinstance(
        func.value, ast.Name
    ):
        return ()
    methods = program.graph.methods_named(func.attr)
    bound = scope.bindings.get(func.value.id, ()) if methods else ()
    if not bound or any(one.how != "for" for one in bound):
        return ()
    is_known = bool(program.values.of(func.value, scope))
    return () if is_known else tuple(methods)


def text_of(expr: ast.expr) -> str | None:
    """A name as written: a text, or a member of an enumeration asked for its name."""
    if isinstance(expr, ast.Constant):
        return expr.value if isinstance(expr.value, str) else None
    if isinstance(expr, ast.Attribute) and expr.attr == "name":
        holder = expr.value
        return holder.attr if isinstance(holder, ast.Attribute) else None
    return None


def _names(
    program: Program, asked: ast.expr, scope: Scope, hops: int
) -> Iterator[str]:
    """The texts that may stand behind a parameter."""
    own = text_of(asked)
    if own is not None:
        yield own
    function = scope.node
    if not isinstance(asked, ast.Name) or not isinstance(function, FUNCTIONS):
        return
    if not hops or asked.id not in {one.arg for one in scope.parameters()}:
        return
    for site in program.graph.sites(function):
        given = argument(site.call, scope, asked.id, site.bound)
        if given is not None:
            yield from _names(program, given, site.scope, hops - 1)
