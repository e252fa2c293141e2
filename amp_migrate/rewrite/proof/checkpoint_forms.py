"""How the state of a scaler is saved and restored: the exact forms that a rewrite emits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.rewrite.proof.forms import Forms, only_of, same

if TYPE_CHECKING:
    from amp_migrate.rewrite.proof.facts import Introduced


class CheckpointForms:
    """Asked of single nodes."""

    def __init__(self, introduced: Introduced, forms: Forms) -> None:
        self.introduced = introduced
        self.forms = forms

    def is_entry(self, target: ast.expr, value: ast.expr) -> bool:
        """`checkpoint["scaler"] = scaler.state_dict()`"""
        is_entry = (
            isinstance(target, ast.Subscript)
            and self.is_key(target.slice)
            and self.forms.is_pure(target.value)
        )
        return is_entry and self.is_state(value)

    def is_restore(self, node: ast.If) -> bool:
        """`if checkpoint.get("scaler"): scaler.load_state_dict(checkpoint["scaler"])`"""
        only, test = only_of(node.body), node.test
        state = (
            self.forms.method(only.value, "load_state_dict", 1)
            if isinstance(only, ast.Expr)
            else None
        )
        if (
            not state
            or not isinstance(test, ast.Call)
            or not isinstance(test.func, ast.Attribute)
        ):
            return False
        asks = (
            test.func.attr == "get"
            and not test.keywords
            and len(test.args) == 1
            and self.is_key(test.args[0])
        )
        entry = state[0]
        reads = (
            isinstance(entry, ast.Subscript)
            and self.is_key(entry.slice)
            and same(entry.value, test.func.value)
        )
        return asks and reads and self.forms.is_pure(test.func.value)

    def is_key(self, node: ast.expr | None) -> bool:
        """The key of a scaler's state."""
        return (
            isinstance(node, ast.Constant)
            and node.value == self.introduced.checkpoint_key
        )

    def is_state(self, node: ast.expr) -> bool:
        """`scaler.state_dict()`"""
        return self.forms.method(node, "state_dict", 0) is not None
