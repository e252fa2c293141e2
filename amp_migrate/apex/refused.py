"""What of apex has no sure replacement."""

from __future__ import annotations

import ast


class Refused(Exception):
    """Something of apex for which there is no sure replacement."""

    def __init__(self, reason: str, node: ast.AST, message: str) -> None:
        """`node`: where the reason is seen."""
        super().__init__(message)
        self.reason = reason
        self.line: int = getattr(node, "lineno", 1)
        self.message = message
