"""Tuples within the targets of an assignment: `_, (hidden, cell) = self.lstm(x)`."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import Binding

_LISTS = (ast.Tuple, ast.List)


def outer_places(binding: Binding) -> tuple[ast.Call | None, set[int]]:
    """The call whose value is taken apart twice, and which of its parts are taken apart again; None
    where one of them is told from the end, or is taken apart a third time.
    """
    statement = binding.statement
    if not isinstance(statement, ast.Assign) or binding.how != "assign":
        return None, set()
    call = statement.value
    is_plain = all(map(_is_plain, statement.targets))
    if not isinstance(call, ast.Call) or not is_plain:
        return None, set()
    return call, {
        place
        for target in statement.targets
        if isinstance(target, _LISTS)
        for place, part in enumerate(target.elts)
        if isinstance(part, _LISTS)
    }


def _is_plain(target: ast.expr) -> bool:
    """Names, and one level of tuples in the tuple."""
    if not isinstance(target, _LISTS):
        return True
    inner = [
        one
        for part in target.elts
        for one in (part.elts if isinstance(part, _LISTS) else [part])
    ]
    return not any(isinstance(one, (*_LISTS, ast.Starred)) for one in inner)
