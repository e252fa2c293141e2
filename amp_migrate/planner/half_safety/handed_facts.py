"""What functions of other files are handed by the calls that lead to them: their own file does not
tell the dtypes of their parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.arguments import argument
from amp_migrate.model.half_safety import Asked
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Binding, Scope
from amp_migrate.model.tensors.fact import Fact
from amp_migrate.planner.half_safety.called_bodies import run_by
from amp_migrate.planner.half_safety.reach import reachable

Facts = dict[Binding, Fact]


class HandedFacts:
    """The facts of parameters, from all calls that were added."""

    def __init__(self) -> None:
        self._found: dict[Scope, list[Facts]] = {}

    def add(
        self, asked: Asked, statements: list[ast.stmt], scope: Scope
    ) -> None:
        """Take note of what the statements, and what they run in their file, hand to others."""
        program = asked.inference.program
        for node, where in reachable(program, statements, scope):
            if isinstance(node, ast.Call) and asked.inference.inside(node):
                for _, inner in _abroad(program, node, where):
                    facts = dict(_given(asked, node, where, inner))
                    self._found.setdefault(inner, []).append(facts)

    def of(self, scope: Scope) -> Facts:
        """Of one function. None where calls differ: which facts belong together would be lost."""
        first, *others = self._found.get(scope, [{}])
        return {} if any(one != first for one in others) else first


def _abroad(
    program: Program, call: ast.Call, scope: Scope
) -> Iterator[tuple[Program, Scope]]:
    for home, inner in run_by(program, call, scope):
        if home is not program:
            yield home, inner


def _given(
    asked: Asked, call: ast.Call, scope: Scope, inner: Scope
) -> Iterator[tuple[Binding, Fact]]:
    bound = inner.self_name is not None
    for one in inner.parameters():
        held = inner.bindings.get(one.arg, ())
        given = argument(call, inner, one.arg, bound)
        if given is not None and held and held[0].how == "parameter":
            yield held[0], asked.fact(given, scope)
