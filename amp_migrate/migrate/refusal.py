"""Why a loop is left alone: a reason that `explain` knows, a position, and a sentence that teaches."""

from __future__ import annotations

import ast


class Refusal(Exception):
    """A loop that cannot be rewritten safely. Raised by any part of the planner, caught where the loop is planned."""

    def __init__(self, reason: str, node: ast.AST, message: str, files: tuple[str, ...] = ()) -> None:
        """`files`: other files of the project in whose company the loop may be migrated."""
        super().__init__(message)
        self.files = files
        self.reason = reason
        self.line: int = getattr(node, "lineno", 1)
        self.message = message


class Skip(Refusal):
    """A loop that is none of the migrator's business (already AMP, no optimizer, CPU only)."""
