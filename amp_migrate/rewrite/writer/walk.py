"""A walk over the tree of LibCST that asks nothing of attributes."""

from __future__ import annotations

import libcst as cst


class Transformer(cst.CSTTransformer):
    """LibCST looks for a method that is called after each attribute of each node, twice; here there
    are none.
    """

    def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
        """Nothing."""

    def on_leave_attribute(
        self, original_node: cst.CSTNode, attribute: str
    ) -> None:
        """Nothing."""
