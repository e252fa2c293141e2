"""What an expression that makes a container puts into it: displays, `dict(g=..., d=...)`."""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name

_MAPPINGS = frozenset({"dict", "OrderedDict", "defaultdict", "ModuleDict"})
BY_ATTRIBUTE = frozenset(
    {
        "Munch",
        "EasyDict",
        "AttrDict",
        "DotDict",
        "SimpleNamespace",
        "Namespace",
        "Box",
        "DotMap",
    }
)
"""Containers whose items are read as attributes, too."""


def literal_items(
    maker: ast.expr,
) -> list[tuple[ast.expr | str | None, ast.expr]]:
    """What an expression that makes a container puts into it."""
    if isinstance(maker, ast.Dict):
        return [
            (k, v)
            for k, v in zip(maker.keys, maker.values, strict=True)
            if k is not None
        ]
    if isinstance(maker, (ast.List, ast.Tuple)):
        return [(None, one) for one in maker.elts]
    is_mapping = (
        isinstance(maker, ast.Call)
        and last_name(maker) in _MAPPINGS | BY_ATTRIBUTE
    )
    if not isinstance(maker, ast.Call) or not is_mapping:
        return []
    whole = [pair for one in maker.args[:1] for pair in literal_items(one)]
    return [*whole, *((k.arg, k.value) for k in maker.keywords if k.arg)]


def last_name(maker: ast.expr) -> str:
    name = dotted_name(maker.func) if isinstance(maker, ast.Call) else None
    return (name or "").rpartition(".")[2]


def all_items(
    maker: ast.expr,
) -> list[tuple[ast.expr | str | None, ast.expr]] | None:
    """The same, where that is all that is put into it; None where there may be more."""
    if isinstance(maker, ast.Dict):
        return None if None in maker.keys else literal_items(maker)
    if isinstance(maker, (ast.List, ast.Tuple)):
        is_more = any(isinstance(one, ast.Starred) for one in maker.elts)
        return None if is_more else literal_items(maker)
    if not isinstance(maker, ast.Call) or last_name(maker) not in _MAPPINGS:
        return None
    parts = [all_items(one) for one in maker.args[:1]]
    is_more = any(one.arg is None for one in maker.keywords)
    return None if None in parts or is_more else literal_items(maker)
