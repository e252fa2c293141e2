"""How the state of a scaler is saved and restored: the exact forms that a rewrite emits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.rewrite.proof.forms import Forms, is_none, only_of, same

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
        """`if checkpoint.get("scaler"): scaler.load_state_dict(checkpoint["scaler"])`, asked for a
        scaler that may be None: `if scaler is not None and checkpoint.get("scaler"): ...`
        """
        only = only_of(node.body)
        state = (
            self.forms.method(only.value, "load_state_dict", 1)
            if isinstance(only, ast.Expr)
            else None
        )
        test = self._after_asking(node.test, only)
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

    def _after_asking(self, test: ast.expr, used: ast.stmt | None) -> ast.expr:
        """`test` of `scaler is not None and test`."""
        asked = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
        parts = test.values if isinstance(test, ast.BoolOp) and asked else []
        if len(parts) == 2 and used is not None:
            return parts[1] if self._is_there(parts[0], used) else test
        return test

    def _is_there(self, test: ast.expr, used: ast.AST) -> bool:
        """`scaler is not None`, of the scaler whose method is called."""
        calls = [one for one in ast.walk(used) if isinstance(one, ast.Call)]
        func = calls[0].func if calls else None
        return (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], ast.IsNot)
            and is_none(test.comparators[0])
            and isinstance(func, ast.Attribute)
            and self.forms.is_scaler(test.left)
            and same(test.left, func.value)
        )

    def asks_everywhere(self, function: ast.AST, name: str) -> bool:
        """Whether a scaler that may be None is used in a function only where it has been asked
        for.
        """
        asked = [one for one in ast.walk(function) if self._is_asked(one)]
        safe = {id(inner) for one in asked for inner in ast.walk(one)}
        return bool(asked) and not any(
            isinstance(one, ast.Name) and one.id == name and id(one) not in safe
            for one in ast.walk(function)
        )

    def _is_asked(self, node: ast.AST) -> bool:
        if isinstance(node, ast.If):
            is_plain = isinstance(node.test, ast.Call)
            return not node.orelse and not is_plain and self.is_restore(node)
        return isinstance(node, ast.IfExp) and self.is_state(node)

    def is_key(self, node: ast.expr | None) -> bool:
        """The key of a scaler's state."""
        return (
            isinstance(node, ast.Constant)
            and node.value == self.introduced.checkpoint_key
        )

    def is_state(self, node: ast.expr) -> bool:
        """`scaler.state_dict()`, or `scaler.state_dict() if scaler is not None else None`"""
        if isinstance(node, ast.IfExp) and is_none(node.orelse):
            if not self._is_there(node.test, node.body):
                return False
            node = node.body
        return self.forms.method(node, "state_dict", 0) is not None
