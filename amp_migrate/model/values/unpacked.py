"""What a name is given that takes one place of a tuple: of one that is written out, or that
functions in sight give back.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Binding, Scope, returned

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def values_given(
    program: Program, binding: Binding, home: Scope
) -> list[tuple[ast.expr, Scope]] | None:
    """The values of an assignment, with the scopes that evaluate them; None where one is not in
    sight.
    """
    value, index = binding.value, binding.index
    if binding.how != "assign" or value is None:
        return None
    if index is None:
        return [(value, home)]
    if isinstance(value, ast.Tuple):
        wholes: list[tuple[ast.expr, Scope]] = [(value, home)]
    elif isinstance(value, ast.Call):
        function = program.values.callee(value, home)
        if function is None:
            return None
        inner = program.scope(function)
        wholes = [(one, inner) for one in returned(function)]
    else:
        return None
    found = [
        (whole.elts[index], where)
        for whole, where in wholes
        if isinstance(whole, ast.Tuple) and is_told(whole, index)
    ]
    return found if found and len(found) == len(wholes) else None


def is_told(whole: ast.Tuple | ast.List, index: int) -> bool:
    """Whether a place is one of a tuple's own: nothing is spread into it (`*parts, loss`)."""
    if any(isinstance(one, ast.Starred) for one in whole.elts):
        return False
    return -len(whole.elts) <= index < len(whole.elts)
