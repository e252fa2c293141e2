"""Questions about what stands in a node, nested functions included, without walking a tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from amp_migrate.model.syntax.child_nodes import PLAIN_FIELDS

Wanted = Callable[[ast.AST], bool]

_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}


def nodes_in(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and everything in it: what `ast.walk` gives, in its order, for a third of its time."""
    found = [node]
    for one in found:  # grows while it is read
        kind = type(one)
        fields = _FIELDS.get(kind)
        if fields is None:
            fields = _FIELDS[kind] = tuple(
                name for name in kind._fields if name not in PLAIN_FIELDS
            )
        for name in fields:
            value = getattr(one, name, None)
            if isinstance(value, list):
                found += [
                    child for child in value if isinstance(child, ast.AST)
                ]
            elif isinstance(value, ast.AST):
                found.append(value)
        yield one


def holds(node: ast.AST, wanted: Wanted) -> bool:
    """Whether `wanted` is true of anything in `node`."""
    return any(wanted(inner) for inner in nodes_in(node))


def children_of(node: ast.AST) -> list[ast.AST]:
    """The nodes right below `node`, contexts and operators included."""
    return list(ast.iter_child_nodes(node))


def fields_of(node: ast.AST) -> list[tuple[str, object]]:
    """The fields of a node that it has, with their names."""
    return list(ast.iter_fields(node))


def parents_in(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """Every node of a tree but the first, with the node above it."""
    return {
        child: parent
        for parent in nodes_in(tree)
        for child in ast.iter_child_nodes(parent)
    }


def any_in(node: ast.AST, *kinds: type[ast.AST]) -> bool:
    """Whether `node`, or anything in it, is of one of the kinds."""
    return any(isinstance(inner, kinds) for inner in nodes_in(node))


def names_in(node: ast.AST) -> set[str]:
    """Every variable that is named."""
    return {inner.id for inner in nodes_in(node) if isinstance(inner, ast.Name)}


def names_stored(node: ast.AST) -> set[str]:
    """Every variable that gets a value."""
    return {
        inner.id
        for inner in nodes_in(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }


def calls_in(node: ast.AST) -> list[ast.Call]:
    """Every call."""
    return [inner for inner in nodes_in(node) if isinstance(inner, ast.Call)]


def constants_in(node: ast.AST) -> set[object]:
    """Every literal value."""
    return {
        inner.value
        for inner in nodes_in(node)
        if isinstance(inner, ast.Constant)
    }


def is_none(expr: ast.AST | None) -> bool:
    """Whether an expression is the literal None."""
    return isinstance(expr, ast.Constant) and expr.value is None


def asks_for_absence(test: ast.expr) -> bool:
    """Whether a condition holds `not` or `is`: `if scaler is None`."""
    return holds(test, lambda inner: isinstance(inner, (ast.Is, ast.Not)))


def names_set(parent: ast.AST) -> set[str]:
    """The names that a loop, or each turn of a comprehension, sets."""
    found = [parent] if isinstance(parent, (ast.For, ast.AsyncFor)) else []
    turns = [*found, *getattr(parent, "generators", ())]
    return {
        node.id
        for turn in turns
        for node in nodes_in(turn.target)
        if isinstance(node, ast.Name)
    }


_PERHAPS = (
    ast.Lambda,
    ast.IfExp,
    ast.BoolOp,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
"""What may leave a part of itself out, or gives names of its own."""


def surely_evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """What is evaluated wherever a plain statement or an expression is, in the order of the
    text.
    """
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _PERHAPS):
            yield from surely_evaluated(child)


def is_elif(statement: ast.stmt, parent: ast.AST) -> bool:
    """Whether `statement` is an `elif` of `parent`: no statement can stand right after it."""
    if not isinstance(parent, ast.If) or not isinstance(statement, ast.If):
        return False
    return (
        parent.orelse == [statement]
        and statement.col_offset == parent.col_offset
    )


_LEAVES = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)


def always_runs(
    body: Iterable[ast.stmt], wanted: Callable[[ast.Call], bool]
) -> bool:
    """Whether one of some calls is a statement of a body, with nothing that may leave it before."""
    for statement in body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and wanted(call):
            return True
        if any(isinstance(one, _LEAVES) for one in nodes_in(statement)):
            return False
    return False
