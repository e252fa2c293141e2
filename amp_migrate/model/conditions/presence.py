"""Conditions that ask whether there is such a thing, and nothing of it."""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name


def asks_for_it(test: ast.expr, name: str | None) -> bool:
    """`self.mixer is not None`, `self.mixer`: a question whether there is such a thing."""
    asked = test
    if isinstance(test, ast.Compare) and isinstance(
        test.ops[0], (ast.Is, ast.IsNot)
    ):
        asked = test.left
    return name is not None and dotted_name(asked) == name
