"""The model of one program: its module with everything that can be asked about it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from amp_migrate.model.calls import CallGraph
from amp_migrate.model.effects import Effects
from amp_migrate.model.neighbours import Neighbours
from amp_migrate.model.syntax import Function, Module, Scope
from amp_migrate.model.uses import Uses
from amp_migrate.model.values import Values

T = TypeVar("T")

if TYPE_CHECKING:
    from amp_migrate.model.precision import Precision
    from amp_migrate.model.regions import RegionIndex


class Program:
    """One parsed module and its answers about names, calls, values and effects."""

    def __init__(self, text: str, path: str, neighbours: Neighbours | None = None) -> None:
        """Parse and index `text`; `neighbours` finds what it imports. Raises SyntaxError, ValueError or RecursionError."""
        self._index(Module(text, path, neighbours))

    def _index(self, module: Module) -> None:
        self.module = module
        self.graph = CallGraph(self.module)
        self.values = Values(self.module, self.graph)
        self.effects = Effects(self.module, self.graph, self.values)
        self._memory: dict[object, Any] = {}

    def remembered(self, key: object, make: Callable[[], T]) -> T:
        """What `make` gave for `key` the first time it was asked."""
        if key not in self._memory:
            self._memory[key] = make()
        found: T = self._memory[key]
        return found

    @cached_property
    def uses(self) -> Uses:
        """Where the module names things of torch and apex."""
        return Uses(self.module)

    @cached_property
    def regions(self) -> RegionIndex:
        """Autocast regions, and what runs in them."""
        from amp_migrate.model.regions import RegionIndex

        return RegionIndex(self)

    @cached_property
    def precision(self) -> Precision:
        """Which expressions are half precision, for certain."""
        from amp_migrate.model.precision import Precision

        return Precision(self)

    def canonical(self, expr: ast.expr) -> str | None:
        """The dotted library name behind `expr`."""
        return self.module.canonical(expr)

    def scope(self, function: Function) -> Scope:
        """The scope of a function definition."""
        return self.module.scopes[function]

    def training_scopes(self) -> list[Scope]:
        """Scopes that call `backward` themselves, in source order."""
        found = [
            s for s in self.module.scopes.values() if not isinstance(s.node, ast.ClassDef) and self.effects.backwards(s)
        ]
        return sorted(
            found, key=lambda s: (self.effects.backwards(s)[0].lineno, self.effects.backwards(s)[0].col_offset)
        )
