"""Which constructors a call runs, and what the constructor of a class runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.dataflow.sources import held
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.syntax.queries import calls_in

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def classes_made(
    program: Program, func: ast.expr, scope: Scope
) -> Iterator[ast.ClassDef]:
    """The classes of which a call makes an object: the one that it names, or those that a name or
    an attribute holds, `self.kind = Parallel if parallel else Single`.
    """
    named = program.graph.class_named(func, scope)
    if named is not None:
        yield named
    elif dotted_name(func) is not None:
        for home, value, where in held(program, func, scope):
            for one in _choices(value) if home is program else ():
                cls = program.graph.class_named(one, where)
                if cls is not None:
                    yield cls


def _choices(value: ast.expr) -> Iterator[ast.expr]:
    """`a` and `b` of `a if x else b`."""
    if isinstance(value, ast.IfExp):
        yield from _choices(value.body)
        yield from _choices(value.orelse)
    else:
        yield value


def is_run_by_constructor(
    program: Program, method: ast.AST, cls: ast.ClassDef
) -> bool:
    """Whether the constructor of a class runs a method in any case."""
    return any(one is method for one in _run(program, cls))


def _run(program: Program, cls: ast.ClassDef) -> Iterator[Function]:
    """The constructor, those of bases that it calls, and the methods that they call."""
    for base in program.graph.lineage(cls):
        init = program.graph.method(base, "__init__")
        if init is None:
            return
        yield init
        name = program.scope(init).self_name
        for statement in init.body:
            call = statement.value if isinstance(statement, ast.Expr) else None
            called = (
                dotted_name(call.func) if isinstance(call, ast.Call) else None
            )
            head, _, method = (called or "").partition(".")
            found = program.graph.method(cls, method) if head == name else None
            if found is not None:
                yield found
        if not any(_is_init(call) for call in calls_in(init)):
            return


def _is_init(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
