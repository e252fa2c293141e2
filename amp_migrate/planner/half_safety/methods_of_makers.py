"""The methods that a call of an object may run, of each class in sight that this may be of."""

from __future__ import annotations

import ast

from amp_migrate.model.calls.targets import makers
from amp_migrate.model.classes.bases_abroad import Class, method_of, with_bases
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope

_PLAIN = ("object", "torch.nn.Module", "abc.ABC")


def methods_of_makers(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[Program, Function]]:
    """`net.accuracy(out)` of a `net` that several scripts make; none where one of the makers is
    out of sight.
    """
    func = call.func
    if not isinstance(func, ast.Attribute):
        return []
    found: dict[Function, Program] = {}
    for maker in makers(program, func.value, scope):
        cls = _class(program, maker)
        method = method_of(*cls, func.attr) if cls is not None else None
        if method is not None:
            found[method[1]] = method[0]
        elif cls is None or not _is_known(cls):
            return []
    return [(home, one) for one, home in found.items()]


def _class(program: Program, maker: ast.ClassDef | ast.expr) -> Class | None:
    if isinstance(maker, ast.ClassDef):
        return program, maker
    if maker not in program.module.parents:
        return None
    abroad = program.values.abroad(maker, program.module.scope_of(maker))
    if abroad is None or not isinstance(abroad[1], ast.ClassDef):
        return None
    return abroad[0], abroad[1]


def _is_known(cls: Class) -> bool:
    """Whether all its bases are in sight: then it has no method of the name, and is not what the
    method is called of (a factory's argument, say).
    """
    return all(
        _is_in_sight(home, base)
        for home, one in with_bases(*cls)
        for owner in home.graph.lineage(one)
        for base in owner.bases
    )


def _is_in_sight(home: Program, base: ast.expr) -> bool:
    scope = home.module.scope_of(base)
    name = home.canonical(base) or getattr(base, "id", "")
    return (
        name in _PLAIN
        or home.graph.class_named(base, scope) is not None
        or home.values.abroad(base, scope) is not None
    )
