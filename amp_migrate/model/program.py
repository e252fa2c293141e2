"""The model of one program: its module with everything that can be asked about it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from amp_migrate.model.autocast.precision import Precision
from amp_migrate.model.autocast.regions import RegionIndex
from amp_migrate.model.calls.call_graph import CallGraph
from amp_migrate.model.dataflow.reaching import Reaching
from amp_migrate.model.naming.uses import Uses
from amp_migrate.model.steps.effects import Effects
from amp_migrate.model.steps.recognition import Events
from amp_migrate.model.syntax.module import Function, Module, Scope
from amp_migrate.model.values.attributes import Attributes
from amp_migrate.model.values.value_kinds import Values

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Neighbours
    from amp_migrate.project.module_graph import Project

T = TypeVar("T")
_NOT_YET: Any = object()


class Program:
    """One parsed module and its answers about names, calls, values and effects."""

    def __init__(
        self, text: str, path: str, neighbours: Neighbours | None = None
    ) -> None:
        """Parse and index `text`; `neighbours` finds what it imports. Raises SyntaxError,
        ValueError or RecursionError.
        """
        self._index(Module(text, path, neighbours))

    project: Project | None = None
    """The tree around, where it is known who imports whom."""

    def _index(self, module: Module) -> None:
        self.module = module
        self._memory: dict[object, Any] = {}
        self.graph = CallGraph(self.module)
        self.reaching = Reaching(self.module, self.graph)
        self.values = Values(self.module, self.graph, self.reaching)
        self.effects = Effects(self)

    def remembered(self, key: object, make: Callable[[], T]) -> T:
        """What `make` gave for `key` the first time it was asked."""
        # A key is a tuple, whose hash is computed for each look.
        found: T = self._memory.get(key, _NOT_YET)
        if found is _NOT_YET:
            found = self._memory[key] = make()
        return found

    def remembers(self, key: object) -> bool:
        """Whether something was made for `key`."""
        return key in self._memory

    @cached_property
    def attributes(self) -> Attributes:
        """Which attributes its classes keep."""
        return Attributes(self)

    @cached_property
    def uses(self) -> Uses:
        """Where the module names things of torch and apex."""
        return Uses(self.module)

    @cached_property
    def regions(self) -> RegionIndex:
        """Autocast regions, and what runs in them."""
        return RegionIndex(self)

    @cached_property
    def events(self) -> Events:
        """Which calls are events of the scaler's protocol."""
        return Events(self)

    @cached_property
    def precision(self) -> Precision:
        """Which expressions are half precision, for certain."""
        return Precision(self)

    def canonical(self, expr: ast.expr) -> str | None:
        """The dotted library name behind `expr`."""
        return self.module.canonical(expr)

    def scope(self, function: Function) -> Scope:
        """The scope of a function definition."""
        return self.module.scopes[function]

    @cached_property
    def training_scopes(self) -> tuple[Scope, ...]:
        """Scopes that call `backward` themselves, in source order."""
        scopes = (
            s
            for s in self.module.scopes.values()
            if not isinstance(s.node, ast.ClassDef)
        )
        firsts = [
            (own[0], s) for s in scopes if (own := self.effects.backwards(s))
        ]
        firsts.sort(key=lambda one: (one[0].lineno, one[0].col_offset))
        return tuple(scope for _, scope in firsts)
