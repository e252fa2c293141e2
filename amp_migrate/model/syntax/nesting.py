"""How deeply a program may be nested, for the analyses to bear it."""

from __future__ import annotations

import ast

DEEPEST = 1_500
"""Levels of nesting: enough for a thousand `elif`, each of which is one."""


def is_nested_too_deeply(text: str) -> bool:
    """Whether no parser, or no analysis, gets through a text."""
    try:
        waiting: list[tuple[ast.AST, int]] = [(ast.parse(text), 0)]
    except (RecursionError, MemoryError):
        return True
    except (SyntaxError, ValueError):
        return False
    while waiting:
        node, depth = waiting.pop()
        if depth == DEEPEST:
            return True
        waiting += [(one, depth + 1) for one in ast.iter_child_nodes(node)]
    return False
