"""What a call of an instance runs: `forward` or `__call__` of its class, or what it is given for
one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Function

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_SET = "self.forward"


def own_forwards(
    program: Program,
    cls: ast.ClassDef,
) -> Iterator[Function]:
    """What a call of an instance runs of its class and of its bases."""
    for name in ("forward", "__call__"):
        method = program.graph.method(cls, name)
        if isinstance(method, FUNCTIONS):
            yield method
    for one in program.graph.lineage(cls):
        for binding in program.module.scopes[one].bindings.get(_SET, ()):
            if binding.value is not None:
                yield from _put_there(program, cls, binding.value)


def _put_there(
    program: Program, cls: ast.ClassDef, value: ast.expr
) -> Iterator[Function]:
    """`self.forward = self.forward_train`; a function of the file."""
    head, _, name = (dotted_name(value) or "").rpartition(".")
    if value not in program.module.parents:
        return
    scope = program.module.scope_of(value)
    is_own = bool(head) and head == scope.self_name
    found = (
        program.graph.method(cls, name)
        if is_own
        else program.graph.function_at(value, scope)
    )
    if isinstance(found, FUNCTIONS):
        yield found
