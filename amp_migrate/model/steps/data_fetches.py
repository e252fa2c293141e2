"""Batches that are taken from an iterator by hand."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import shallow


def fetches_data(statement: ast.stmt) -> bool:
    """Whether `batch = next(batches)` stands in a statement, or `batches.next()`.

    `next(model.parameters())` fetches no data: what is asked must have a name, or be made by
    `iter(...)`.
    """
    return any(
        isinstance(node, ast.Call) and _is_fetch(node)
        for node in shallow(statement)
    )


def _is_fetch(call: ast.Call) -> bool:
    func = call.func
    if isinstance(func, ast.Attribute):
        return func.attr in ("next", "__next__") and not call.args
    if not (isinstance(func, ast.Name) and func.id == "next" and call.args):
        return False
    batches = call.args[0]
    return (
        is_iterator(batches)
        if isinstance(batches, ast.Call)
        else isinstance(batches, (ast.Name, ast.Attribute, ast.Subscript))
    )


def is_iterator(made: ast.Call) -> bool:
    """`iter(loader)`, `loader.__iter__()`."""
    if isinstance(made.func, ast.Attribute):
        return made.func.attr == "__iter__"
    return isinstance(made.func, ast.Name) and made.func.id == "iter"
