"""The bodies that a call runs, whichever file they stand in: a function, the `forward` of a module,
and `__call__` of an object that a factory makes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.bodies_abroad import body_abroad
from amp_migrate.model.calls.targets import makers
from amp_migrate.model.classes.bases_abroad import called_of_base, constructor
from amp_migrate.model.forwards.own_forwards import own_forwards
from amp_migrate.model.naming.one_of_several import all_abroad
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope, returned
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.methods import ONLY_OF_TENSORS

_HOPS = 3
_OPEN = (Kind.UNKNOWN, Kind.OBJECT)


def run_by(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[Program, Scope]]:
    """The function in sight that a call runs, and all that it may run of objects."""
    found = _called(program, call, scope)
    made = _called_objects(program, call, scope)
    # Where one of several classes is made, the first alone is known as what is called.
    return list(dict.fromkeys([*([found] if found else []), *made]))


def is_called(home: Program, cls: ast.ClassDef) -> bool:
    """Whether objects of a class are called: models, losses, and what has a
    `__call__` of its own.
    """
    kind = home.values.class_kind(cls)
    if kind in (Kind.MODEL, Kind.CRITERION):
        return True
    return home.graph.method(cls, "__call__") is not None


def is_of_tensor(func: ast.expr) -> bool:
    """`losses["penalty"].mean()`, which runs no object that gave the loss."""
    return isinstance(func, ast.Attribute) and (
        func.attr in ONLY_OF_TENSORS or ops.method(func.attr) is not None
    )


def _called(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Program, Scope] | None:
    """The function in sight that a call runs, in this file or another."""
    function = program.values.callee(call, scope)
    if function is not None:
        return program, program.scope(function)
    definition = program.values.abroad(call.func, scope)
    if definition is not None and not isinstance(definition[1], ast.ClassDef):
        return definition[0], definition[0].scope(definition[1])
    own = program.graph.class_named(call.func, scope)
    made = (program, own) if own is not None else definition
    if made is not None and isinstance(made[1], ast.ClassDef):
        found = constructor(made[0], made[1])
        return (found[0], found[0].scope(found[1])) if found else None
    of_base = (
        called_of_base(program, call.func, scope)
        if isinstance(call.func, ast.Attribute)
        else None
    )
    if of_base is not None:
        return of_base[0], of_base[0].scope(of_base[1])
    method = body_abroad(program, call, scope)
    if method is not None:
        return method[0], method[0].scope(method[1])
    return _forward_of(program, call, scope)


def _forward_of(
    program: Program, call: ast.Call, scope: Scope
) -> tuple[Program, Scope] | None:
    """`penalty(scores, labels)` of a module in sight runs its `forward`."""
    value = program.values.of(call.func, scope)
    other, cls = value.foreign or (program, value.cls)
    forward = other.graph.method(cls, "forward") if cls is not None else None
    return (other, other.scope(forward)) if forward is not None else None


def _called_objects(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, Scope]]:
    """`algorithm(x, model)`, by the classes that a factory here or in another file makes it of."""
    kind = program.values.kind(call.func, scope)
    if kind not in _OPEN or program.canonical(call.func) is not None:
        return
    if is_of_tensor(call.func):
        return
    for home, cls in _made(program, call.func, scope):
        for function in own_forwards(home, cls):
            yield home, home.scope(function)


def _made(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> Iterator[tuple[Program, ast.ClassDef]]:
    """The classes that an object may be of."""
    for made in makers(program, expr, scope) if hops else ():
        if isinstance(made, ast.ClassDef):
            yield program, made
            continue
        where = program.module.scope_of(made)
        for home, found in all_abroad(program, made, where):
            if isinstance(found, ast.ClassDef):
                yield home, found
                continue
            inner = home.scope(found)
            for value in returned(found):
                yield from _made(home, value, inner, hops - 1)
