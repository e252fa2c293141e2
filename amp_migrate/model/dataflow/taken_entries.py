"""What a look-up by a literal takes out of tables that are written out, key by key:
`Encoder()` of `self.models["encoder"]`, whoever makes the table, and whichever branch fills it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.dataflow.sources import Part, held, stored
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.values.keys import literal
from amp_migrate.model.values.written_items import all_items

_HOPS = 6


def taken(part: Part) -> list[Part]:
    """The entries that a look-up may take; none where one of the tables is not written out."""
    program, entry, scope = part
    if not isinstance(entry, ast.Subscript) or literal(entry.slice) is None:
        return []
    tables = program, entry.value, scope
    try:
        return list(dict.fromkeys(_under(tables, entry.slice, _HOPS)))
    except _OutOfSightError:
        return []


def entries(part: Part) -> list[Part]:
    """All that a look-up may take, whatever its key; none where a table is not written out, or
    something is put into it.
    """
    program, entry, scope = part
    if not isinstance(entry, ast.Subscript):
        return []
    try:
        return list(
            dict.fromkeys(_under((program, entry.value, scope), None, _HOPS))
        )
    except _OutOfSightError:
        return []


class _OutOfSightError(Exception):
    """A table is not written out."""


def _under(table: Part, key: ast.expr | None, hops: int) -> Iterator[Part]:
    program, expr, scope = table
    if dotted_name(expr) is None:
        items = all_items(expr)
        if items is None or (
            key is not None and any(literal(one) is None for one, _ in items)
        ):
            raise _OutOfSightError
        yield from (
            (program, one, scope)
            for under, one in items
            if key is None or literal(under) == literal(key)
        )
        return
    before = held(program, expr, scope) if hops else ()
    if not before:
        raise _OutOfSightError
    for one in before:
        yield from _under(one, key, hops - 1)
    for under, value in stored(program, expr, scope):
        if key is None or literal(under) is None:
            raise _OutOfSightError
        if literal(under) == literal(key):
            yield value
