"""Which lines belong to one of several places of a file alone."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from amp_migrate.model.syntax.module import FUNCTIONS
from amp_migrate.model.syntax.queries import nodes_in


def extents(text: str, lines: Sequence[int]) -> list[range]:
    """For each line, those of the outermost compound statement of its function that holds it and
    none of the others; none where there is no such statement.
    """
    statements = [
        node
        for node in nodes_in(ast.parse(text))
        if isinstance(node, ast.stmt)
        and not isinstance(node, (*FUNCTIONS, ast.ClassDef))
    ]
    spans = [
        range(one.lineno, (one.end_lineno or one.lineno) + 1)
        for one in statements
        if hasattr(one, "body")
    ]
    return [_own(spans, one, set(lines) - {one}) for one in lines]


def _own(spans: Sequence[range], line: int, others: set[int]) -> range:
    """The longest of some spans that holds one line and none of the others."""
    own = []
    for span in spans:
        if line in span and not others & set(span):
            own.append(span)
    return max(own, key=len, default=range(0))
