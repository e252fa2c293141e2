"""Which autocast calls stand behind a context: written in place, kept under a name, chosen, or
returned by a function in sight.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
    shallow,
)
from amp_migrate.torch_facts.amp_api import names

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

AUTOCAST = {*names("autocast"), "torch.xpu.amp.autocast"}
SWITCH = "torch.set_autocast_enabled"
"""What contexts of old projects call on their way in."""
_HOPS = 3


def is_autocast(program: Program, node: ast.AST) -> bool:
    """Whether `node` is a call of autocast under one of its names."""
    return (
        isinstance(node, ast.Call) and program.canonical(node.func) in AUTOCAST
    )


def is_partial(program: Program, node: ast.AST) -> bool:
    """`functools.partial(torch.autocast, "cuda")`, which is autocast when it is called."""
    return (
        isinstance(node, ast.Call)
        and program.canonical(node.func) == "functools.partial"
        and bool(node.args)
        and program.canonical(node.args[0]) in AUTOCAST
    )


def opened(
    program: Program,
) -> Iterator[tuple[ast.With | ast.AsyncWith | Function, ast.Call]]:
    """Each `with` and decorated function that runs under autocast, and the call that makes its
    context.
    """
    for node in program.module.parents:
        if isinstance(node, (ast.With, ast.AsyncWith)):
            scope = program.module.scope_of(node)
            for item in node.items:
                call = autocast_behind(program, item.context_expr, scope)
                if call is not None:
                    yield node, call
        elif isinstance(node, FUNCTIONS):
            scope = program.module.scope_of(node)
            for decorator in node.decorator_list:
                call = decorating_autocast(program, decorator, scope)
                if call is not None:
                    yield node, call


def autocast_behind(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> ast.Call | None:
    """The autocast call that makes the context `expr`, on some path at least."""
    if isinstance(expr, ast.Call) and (
        is_autocast(program, expr)
        or is_partial(program, expr)
        or program.canonical(expr.func) == SWITCH
        or (hops and class_behind(program, expr.func, scope, hops - 1))
    ):
        return expr
    for one, where in _meant(program, expr, scope) if hops else ():
        found = autocast_behind(program, one, where, hops - 1)
        if found is not None:
            return found
    return None


def class_behind(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> str | None:
    """The name of autocast that a variable holds itself, on some path at least: `region =
    get_autocast(precision)`, to be opened by `with region():`.
    """
    name = program.canonical(expr)
    if name in AUTOCAST:
        return name
    for one, where in _meant(program, expr, scope) if hops else ():
        if isinstance(one, (ast.Name, ast.Attribute, ast.Call, ast.IfExp)):
            found = class_behind(program, one, where, hops - 1)
            if found is not None:
                return found
    return None


def called_name(
    program: Program,
    call: ast.Call,
) -> str:
    """The name of autocast, or of the switch, that a call is of."""
    called = call.args[0] if is_partial(program, call) else call.func
    name = program.canonical(called) or ""
    if name in AUTOCAST or name == SWITCH:
        return name
    scope = program.module.scope_of(call)
    return class_behind(program, called, scope) or name


def _meant(
    program: Program, expr: ast.expr, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    if isinstance(expr, ast.IfExp):
        yield expr.body, scope
        yield expr.orelse, scope
    elif isinstance(expr, (ast.Name, ast.Attribute)):
        home, bindings = _bindings(program, expr, scope)
        if not bindings and isinstance(expr, ast.Attribute):
            yield from _kept(program, expr, scope)
        for binding in bindings:
            if binding.how == "parameter":
                yield from _handed(program, expr, home)
            elif (
                binding.how == "assign"
                and binding.index is None
                and binding.value is not None
            ):
                yield binding.value, home
    elif isinstance(expr, ast.Call):
        yield from _called(program, expr, scope)


def _called(
    program: Program, expr: ast.Call, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What a call gives: what a function returns, what an object enters, what a partial or a
    lambda stands for.
    """
    function = program.values.callee(expr, scope)
    if function is not None:
        for value in (*returned(function), *_around_yields(function)):
            if not _is_switched_off(program, expr, function, value):
                yield value, program.scope(function)
        return
    cls = program.values.of(expr, scope).cls
    if cls is not None:
        yield from _entered(program, cls)
    elif not expr.args and not expr.keywords:
        for value, home in _meant(program, expr.func, scope):
            if is_partial(program, value):
                yield value, home
            elif isinstance(value, ast.Lambda):
                yield value.body, program.module.scopes[value]


def _kept(
    program: Program, expr: ast.Attribute, scope: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What a property gives, and what another object keeps under a name."""
    cls = program.values.of(expr.value, scope).cls
    if cls is None:
        return
    method = program.graph.method(cls, expr.attr)
    if method is not None and method.decorator_list:
        inner = program.scope(method)
        yield from ((value, inner) for value in returned(method))
    for owner in program.graph.lineage(cls):
        own = program.module.scopes[owner].bindings.get(f"self.{expr.attr}", ())
        for binding in own:
            if binding.how == "assign" and binding.value is not None:
                where = program.module.scope_of(binding.value)
                yield binding.value, where


def _around_yields(function: Function) -> Iterator[ast.expr]:
    """The contexts in which a context manager that is written as a generator gives way."""
    for statement in function.body:
        for node in shallow(statement):
            if isinstance(node, (ast.With, ast.AsyncWith)) and any(
                isinstance(inner, ast.Yield)
                for one in node.body
                for inner in shallow(one)
            ):
                yield from (item.context_expr for item in node.items)


def _is_switched_off(
    program: Program, call: ast.Call, function: Function, made: ast.expr
) -> bool:
    """Whether autocast obeys a parameter here that the call sets to False."""
    inner = program.scope(function)
    if not isinstance(made, ast.Call):
        return False
    given = [*made.args, *(one.value for one in made.keywords)]
    passed = (
        argument(call, inner, one.id, inner.takes_receiver)
        for one in given
        if isinstance(one, ast.Name)
    )
    return any(
        isinstance(one, ast.Constant) and one.value is False for one in passed
    )


def _entered(
    program: Program, cls: ast.ClassDef
) -> Iterator[tuple[ast.expr, Scope]]:
    """The contexts that `__enter__` of a class enters in turn."""
    method = program.graph.method(cls, "__enter__")
    if method is None:
        return
    inner = program.scope(method)
    for call in inner.calls:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "__enter__":
            yield func.value, inner
        elif program.canonical(func) == SWITCH:
            yield call, inner


def _handed(
    program: Program, expr: ast.Name | ast.Attribute, home: Scope
) -> Iterator[tuple[ast.expr, Scope]]:
    """What callers in sight pass for a parameter."""
    name = dotted_name(expr)
    function = home.node
    if name is None or not isinstance(function, FUNCTIONS):
        return
    for site in program.graph.sites(function):
        given = argument(site.call, home, name, site.bound)
        if given is not None:
            yield given, site.scope


def _bindings(
    program: Program, expr: ast.expr, scope: Scope
) -> tuple[Scope, list[Binding]]:
    name = dotted_name(expr)
    home = scope.lookup(name) if name is not None else None
    if (
        home is None
        and name is not None
        and name.partition(".")[0] == scope.self_name
    ):
        cls = program.graph.class_around(scope)
        name = "self." + name.partition(".")[2]
        lineage = program.graph.lineage(cls) if cls is not None else []
        homes = [program.module.scopes[owner] for owner in lineage]
        home = next((one for one in homes if name in one.bindings), None)
    return (
        (home, home.bindings.get(name or "", []))
        if home is not None
        else (scope, [])
    )


def decorating_autocast(
    program: Program, decorator: ast.expr, scope: Scope
) -> ast.Call | None:
    """The autocast call of a region in which a decorator of the program runs what it decorates."""
    if is_autocast(program, decorator):
        assert isinstance(decorator, ast.Call)
        return decorator
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    function = program.graph.function_at(named, scope)
    return _wraps(program, function) if function is not None else None


def _wraps(program: Program, function: Function) -> ast.Call | None:
    """The region that a function is called under by what it is wrapped in."""
    for inner in program.module.scopes:
        if isinstance(inner, FUNCTIONS) and inner is not function:
            given = _given_around(program, inner, function)
            found = _region_of_call(program, inner, given) if given else None
            if found is not None:
                return found
    return None


def _given_around(
    program: Program, inner: Function, outer: Function
) -> set[str]:
    """The parameters of a function, and of those around it up to `outer`; none where it does not
    stand in that.
    """
    names: set[str] = set()
    scope: Scope | None = program.scope(inner)
    while scope is not None:
        names |= {one.arg for one in scope.parameters()}
        if scope.node is outer:
            return names
        scope = scope.parent
    return set()


def _region_of_call(
    program: Program, function: Function, names: set[str]
) -> ast.Call | None:
    scope = program.scope(function)
    for statement in function.body:
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            calls = (
                node
                for node in shallow(statement)
                if isinstance(node, ast.Call)
            )
            if any(
                isinstance(c.func, ast.Name) and c.func.id in names
                for c in calls
            ):
                for item in statement.items:
                    found = autocast_behind(program, item.context_expr, scope)
                    if found is not None:
                        return found
    return None
