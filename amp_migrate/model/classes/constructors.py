"""What the constructor of a class runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Function
from amp_migrate.model.syntax.queries import calls_in

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


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
