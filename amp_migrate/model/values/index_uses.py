"""Values that count: what is an index, the bound of a slice or an argument of `range` is a whole
number or a mask, or the program would have failed there; as a float it would. Classes are told by
such numbers as well: the target of `nll_loss`, what an embedding is asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.torch_facts import layers, ops
from amp_migrate.torch_facts.methods import VIEWS

_CARRIES = (ast.Tuple, ast.Slice, ast.UnaryOp, ast.keyword)
_TARGETS = ("target", "targets")
_PICKS = "nn.functional.embedding"


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
        for expr in _counting(program, node):
            name = dotted_name(expr)
            if name is not None:
                found.setdefault(name, []).append(expr)
    return found


def _counting(program: Program, node: ast.AST) -> Iterator[ast.expr]:
    """What a node counts by."""
    if isinstance(node, ast.Subscript):
        yield from _parts(node.slice)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            yield from node.args
        for one in _classes(program, node):
            yield from _views(one)


def _classes(program: Program, call: ast.Call) -> Iterator[ast.expr]:
    """What tells classes by their numbers: operands of a loss, or of an embedding, whose dtype is
    not that of the operator.
    """
    op = _operator(program, call)
    if op is None or op.tensors == ops.EVERY:
        return
    if op.name not in (*layers.LOSSES, _PICKS):
        return
    for place, given in enumerate(call.args[:2]):
        if place not in op.tensors:
            yield given
    if 1 in op.tensors:
        return
    for keyword in call.keywords:
        if keyword.arg in _TARGETS:
            yield keyword.value


def _operator(program: Program, call: ast.Call) -> ops.Op | None:
    """The operator of torch that a call runs, by its name or as a layer."""
    found = ops.function(program.canonical(call.func))
    if found is not None:
        return found.op
    scope = program.module.scope_of(call)
    value = program.values.of(call.func, scope)
    if value.mixed:
        return None
    kept = layers.layer(value.name)
    return kept.op if kept is not None else None


def _views(expr: ast.expr) -> Iterator[ast.expr]:
    """An expression, and what it is a view of: `y` of `y.view(-1)`."""
    yield expr
    while isinstance(expr, ast.Call):
        func = expr.func
        if not isinstance(func, ast.Attribute):
            return
        if func.attr not in VIEWS:
            return
        expr = func.value
        yield expr


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
    return above is not None and any(
        one is expr for one in _counting(program, above)
    )
