"""What names were made of, for those who ask what a value is rather than which dtype it has."""

from __future__ import annotations

import ast

from amp_migrate.model.conditions.decided_values import decided
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope


def values_of(
    asked: Asked, name: ast.expr, *, parts: bool = False
) -> list[tuple[ast.expr, Scope]]:
    """The expressions that a name or attribute may have been set to, or that callers pass; with
    `parts` also those of which it is one part.
    """
    program, dotted = asked.inference.program, dotted_name(name)
    found: list[tuple[ast.expr, Scope]] = []
    for one in (
        decided(program, name, program.reaching.at(name, dotted).bindings)
        if dotted is not None
        else ()
    ):
        if one.how == "parameter":
            found += asked.inference.passed(one)
        elif one.value is None or one.how not in ("assign", "walrus"):
            continue
        elif one.value not in program.module.parents:
            continue  # an heir's, in a file that is only read
        elif parts or one.index is None:
            found.append((one.value, program.module.scope_of(one.value)))
        elif (element := _element(one.value, one.index)) is not None:
            found.append((element, program.module.scope_of(element)))
    return found


def _element(value: ast.expr, index: int) -> ast.expr | None:
    """`b` of `x, y = a, b`."""
    if not isinstance(value, (ast.Tuple, ast.List)) or index < 0:
        return None
    before = value.elts[: index + 1]
    is_open = any(isinstance(one, ast.Starred) for one in before)
    return None if is_open or index >= len(value.elts) else before[-1]


def method_name(expr: ast.expr) -> str:
    """`view` of `x.view(n, -1)`, `T` of `x.T`; empty where there is none."""
    inner = expr.func if isinstance(expr, ast.Call) else expr
    return inner.attr if isinstance(inner, ast.Attribute) else ""
