"""Values that count: what is an index, the bound of a slice or an argument of `range` is a whole
number or a mask, or the program would have failed there; as a float it would.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.syntax.queries import nodes_in

_CARRIES = (ast.Tuple, ast.Slice, ast.UnaryOp)


def counts(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether `expr`, or a name that holds its value, is used to count."""
    if _is_index(program, expr):
        return True
    if isinstance(expr, (ast.Name, ast.Attribute)):
        dotted = dotted_name(expr)
        return dotted is not None and _shares_value(
            program, expr, dotted, scope
        )
    statement = program.module.parents.get(expr)
    return isinstance(statement, ast.Assign) and any(
        any(one.statement is statement for one in _bindings(program, use, name))
        for name in map(dotted_name, statement.targets)
        if name is not None
        for use in _uses(program, scope).get(name, ())
    )


def _shares_value(
    program: Program, expr: ast.expr, dotted: str, scope: Scope
) -> bool:
    """Whether what a name holds here is an index elsewhere."""
    own = {id(one) for one in _bindings(program, expr, dotted)}
    return any(
        own & {id(one) for one in _bindings(program, use, dotted)}
        for use in _uses(program, scope).get(dotted, ())
    )


def _bindings(
    program: Program, node: ast.expr, name: str
) -> tuple[Binding, ...]:
    return program.reaching.at(node, name).bindings


def _uses(program: Program, scope: Scope) -> dict[str, list[ast.expr]]:
    """The names that a body uses to count."""
    return program.remembered((counts, scope), lambda: _found(program, scope))


def _found(program: Program, scope: Scope) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in (one for top in scope.body for one in nodes_in(top)):
        for expr in _counting(node):
            name = dotted_name(expr)
            if name is not None:
                found.setdefault(name, []).append(expr)
    return found


def _counting(node: ast.AST) -> Iterator[ast.expr]:
    """What a node counts by."""
    if isinstance(node, ast.Subscript):
        yield from _parts(node.slice)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from node.args if node.func.id == "range" else ()


def _parts(index: ast.expr | None) -> Iterator[ast.expr]:
    """The single indices and bounds of an index."""
    if isinstance(index, ast.Tuple):
        for one in index.elts:
            yield from _parts(one)
    elif isinstance(index, ast.Slice):
        for bound in (index.lower, index.upper, index.step):
            yield from _parts(bound)
    elif isinstance(index, ast.UnaryOp):
        yield from _parts(index.operand)
    elif index is not None:
        yield index


def _is_index(program: Program, expr: ast.expr) -> bool:
    parents = program.module.parents
    above = parents.get(expr)
    while isinstance(above, _CARRIES):
        above = parents.get(above)
    return above is not None and any(one is expr for one in _counting(above))
