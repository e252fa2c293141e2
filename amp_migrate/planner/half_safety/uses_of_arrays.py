"""What a program does with an array that was made of a half tensor: whether it could tell that from
one of float32.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeAlias

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.array_dtypes import converts_exactly
from amp_migrate.torch_facts.methods import (
    PICKS_OF_ARRAYS,
    PYTHON_NUMBERS,
    TESTS_OF_ARRAYS,
    VIEWS_OF_ARRAYS,
)

Reads: TypeAlias = Callable[[ast.stmt, str, Scope], Iterator[ast.expr]]
"""Where a name is read that a statement set."""
_SHOWING = frozenset({"float", "int", "bool", "print", "str", "repr"})


class ArrayUses:
    """Answers `mind` for the arrays of one program."""

    def __init__(self, asked: Asked, reads: Reads) -> None:
        """`reads` finds where names are read outside of autocast."""
        self.inference = asked.inference
        self.program = asked.inference.program
        self.reads = reads

    def mind(self, array: ast.expr, *, computed: bool) -> bool:
        """Whether half precision may change what becomes of an array; `computed`: it was computed
        in half steps, so that to convert or show it is enough.
        """
        parent = self.program.module.parents[array]
        if isinstance(parent, ast.Assign):
            return self._named(parent, array, computed)
        if isinstance(parent, ast.Attribute):
            return self._asked(parent, computed)
        if isinstance(parent, ast.Subscript) and parent.value is array:
            return self.mind(parent, computed=computed)
        if isinstance(parent, ast.Call):
            return self._handed(parent, computed)
        return not isinstance(parent, ast.Compare)

    def _named(
        self, statement: ast.Assign, array: ast.expr, computed: bool
    ) -> bool:
        """`rows = x.numpy()`, by all that is done with `rows`."""
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            return True
        scope = self.program.module.scope_of(array)
        found = list(self.reads(statement, target.id, scope))
        return not found or any(
            self.mind(one, computed=computed) for one in found
        )

    def _asked(self, attribute: ast.Attribute, computed: bool) -> bool:
        """`a.argmax(1)`, `a.T`, `a.astype(np.float64)`"""
        if attribute.attr in PICKS_OF_ARRAYS:
            return False
        call = self.program.module.parents[attribute]
        is_called = isinstance(call, ast.Call) and call.func is attribute
        if attribute.attr in VIEWS_OF_ARRAYS:
            shown = call if is_called else attribute
            assert isinstance(shown, ast.expr)
            return self.mind(shown, computed=computed)
        if not isinstance(call, ast.Call) or not is_called:
            return True
        if attribute.attr in PYTHON_NUMBERS or converts_exactly(
            self.inference, call
        ):
            return computed
        return True

    def _handed(self, call: ast.Call, computed: bool) -> bool:
        """`np.argmax(a, 1)`, `np.isnan(a)`, `float(a)`, `np.float64(a)`"""
        name = (self.program.canonical(call.func) or "").rpartition(".")[2]
        if name in PICKS_OF_ARRAYS:
            return False
        if name in TESTS_OF_ARRAYS:
            return computed
        scope = self.program.module.scope_of(call)
        own = dotted_name(call.func) or ""
        if own in _SHOWING and scope.lookup(own) is None:
            return computed
        is_exact = converts_exactly(self.inference, call)
        return computed if is_exact else True
