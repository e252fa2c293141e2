"""Calls of what PyTorch no longer has, which tell that a file runs on an older torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.data_fetches import is_iterator
from amp_migrate.model.syntax.module import Module
from amp_migrate.torch_facts.removed import NEXT_OF_LOADERS, REMOVED, Version

_ROWS = {row.name: row for row in REMOVED}


def removed_in(module: Module) -> Version | None:
    """The first torch on which a call of the file raises; None where no call tells."""
    return min(_gone(module), default=None)


def _gone(module: Module) -> Iterator[Version]:
    calls = [call for scope in module.own_scopes for call in scope.calls]
    iterators = {*_iterators(module, calls)}
    for call in calls:
        row = _ROWS.get(module.imports.canonical(call.func) or "")
        if row is not None and all(
            word.arg not in (row.without, None) for word in call.keywords
        ):
            yield row.gone
        if _is_next(call) and (
            dotted_name(call.func) in iterators or _is_at_once(call)
        ):
            yield NEXT_OF_LOADERS


def _is_next(call: ast.Call) -> bool:
    return (
        not call.args
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "next"
    )


def _is_at_once(call: ast.Call) -> bool:
    """`iter(loader).next()`, `loader.__iter__().next()`."""
    made = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(made, ast.Call) and is_iterator(made)


def _iterators(module: Module, calls: list[ast.Call]) -> Iterator[str]:
    """`batches.next` for `batches = iter(loader)`."""
    for call in filter(is_iterator, calls):
        parent = module.parents[call]
        if isinstance(parent, ast.Assign):
            yield from (
                f"{dotted_name(target)}.next" for target in parent.targets
            )
