"""The dict displays, or other expressions, that a name may hold, through calls and imports."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Function, Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 6


class Displays:
    """Followed from a name back to what it may hold."""

    def __init__(
        self, program: Program, others: Collection[ast.expr] = ()
    ) -> None:
        """`others`: expressions that are looked for, beside dict displays."""
        self.program = program
        self.others = others
        self.found: dict[ast.expr, None] = {}
        self.complete = True
        """Whether the name can hold nothing else."""
        self._waiting: deque[tuple[Binding, str, int]] = deque()
        self._seen: set[tuple[Binding, str]] = set()

    def of(
        self, place: ast.expr | ast.stmt, name: str, hops: int = _HOPS
    ) -> Displays:
        """Collect those that may reach `place`. Each binding is followed once, on the shortest of
        the ways that lead to it: there are far more ways than bindings.
        """
        self._read(place, name, hops)
        waiting = self._waiting
        while waiting:
            binding, name, hops = waiting.popleft()
            self._bound(binding, name, hops)
        return self

    def _read(self, place: ast.expr | ast.stmt, name: str, hops: int) -> None:
        reaching = self.program.reaching
        bindings = reaching.at(place, name).bindings if hops else ()
        self.complete &= bool(bindings)
        self._follow(bindings, name, hops)

    def _follow(
        self,
        bindings: Iterable[Binding],
        name: str,
        hops: int,
    ) -> None:
        for one in bindings:
            key = (one, name)
            if key in self._seen:
                continue
            self._seen.add(key)
            self._waiting.append((one, name, hops))

    def _bound(self, binding: Binding, name: str, hops: int) -> None:
        known = binding.statement in self.program.module.parents
        scope = (
            self.program.module.scope_of(binding.statement) if known else None
        )
        if (
            binding.how == "parameter"
            and scope is not None
            and isinstance(scope.node, FUNCTIONS)
        ):
            self._passed(scope, scope.node, name, hops)
        elif binding.how == "import" and scope is not None:
            self._imported(scope, name, hops)
        elif binding.how == "assign" and binding.index is None:
            self._value(binding.value, hops)
        else:
            self.complete = False

    def _imported(self, scope: Scope, name: str, hops: int) -> None:
        """`from settings import CONFIG`, of another file of the program."""
        origin = self.program.module.elsewhere(name, scope)
        bindings = origin[0].bindings.get(origin[1], []) if origin else []
        self.complete &= len(bindings) == 1
        self._follow(bindings, origin[1] if origin else name, hops - 1)

    def _passed(
        self, scope: Scope, function: Function, name: str, hops: int
    ) -> None:
        entry = self.program.reaching.entry
        sites = entry.sites(function)
        self.complete &= bool(sites) and not entry.escapes(function)
        for call, _, bound in sites:
            given = argument(call, scope, name, bound)
            self._value(given, hops)

    def _value(self, value: ast.expr | None, hops: int) -> None:
        dotted = dotted_name(value) if value is not None else None
        if value is None:
            self.complete = False
        elif isinstance(value, ast.Dict) or value in self.others:
            self.found[value] = None
            self.complete &= isinstance(value, ast.Dict)
        elif dotted is None or value not in self.program.module.parents:
            self.complete = False
        else:
            self._read(value, dotted, hops - 1)


def entries_behind(
    program: Program, place: ast.expr | ast.stmt, name: str
) -> list[frozenset[str]] | None:
    """The keys of each dict display that a name may hold; None where it may hold others."""
    known = Displays(program).of(place, name)
    if not known.complete:
        return None
    return [
        frozenset(
            str(key.value) for key in one.keys if isinstance(key, ast.Constant)
        )
        for one in known.found
        if isinstance(one, ast.Dict)
    ]
