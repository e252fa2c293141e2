"""What functions of other files are handed by the calls that lead to them: their own file does not
tell the dtypes of their parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.calls.arguments import argument, rest_arguments
from amp_migrate.model.forwards.unknown_models import methods_abroad
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.model.tensors.fact import DType, Fact, join
from amp_migrate.planner.half_safety.called_bodies import run_by
from amp_migrate.planner.half_safety.own_versions import own_version
from amp_migrate.planner.half_safety.reach import perhaps_reachable
from amp_migrate.records import NamedTuple

Facts = dict[Binding, Fact]


class Handed(NamedTuple):
    """A call that leads into another file, and who may be asked about it."""

    asked: Asked
    call: ast.Call
    scope: Scope


class HandedFacts:
    """The facts of parameters, from all calls that were added."""

    def __init__(self, program: Program) -> None:
        """`program`: whose files are asked about, whoever leads to them."""
        self.program = program
        self._found: dict[Scope, list[Facts]] = {}
        self._calls: dict[Scope, list[Handed]] = {}
        self.added: list[tuple[Asked, list[ast.stmt], Scope]] = []

    def add(
        self, asked: Asked, statements: list[ast.stmt], scope: Scope
    ) -> None:
        """Take note of what the statements, and what they run in their file, hand to others."""
        program = asked.inference.program
        self.added.append((asked, statements, scope))
        for node, where in perhaps_reachable(program, statements, scope):
            if isinstance(node, ast.Call) and asked.inference.inside(node):
                for _, inner in run_abroad(self.program, node, where, program):
                    facts = dict(given_facts(asked, node, where, inner))
                    self._found.setdefault(inner, []).append(facts)
                    handed = Handed(asked, node, where)
                    self._calls.setdefault(inner, []).append(handed)

    def given(
        self, name: str, scope: Scope
    ) -> Iterator[tuple[Asked, ast.expr, Scope]]:
        """What the calls pass for a parameter of a function."""
        bound = scope.takes_receiver
        for one in self._calls.get(scope, ()):
            passed = argument(one.call, scope, name, bound)
            if passed is not None:
                yield one.asked, passed, one.scope

    def of(self, scope: Scope) -> list[Facts]:
        """Of one function: apart for calls that hand half and calls that hand float32 for the same
        parameter, since which of them belong together would be lost.
        """
        alike: dict[_Widths, list[Facts]] = {}
        for one in self._found.get(scope, [{}]):
            alike.setdefault(_widths(one), []).append(one)
        return [
            {one: join(facts[one] for facts in held) for one in held[0]}
            for held in alike.values()
        ]


_Widths = tuple[tuple[Binding, DType], ...]


def _widths(facts: Facts) -> _Widths:
    widths = DType.HALF | DType.FLOAT
    return tuple((one, fact.dtypes & widths) for one, fact in facts.items())


def run_abroad(
    program: Program, call: ast.Call, scope: Scope, caller: Program
) -> Iterator[tuple[Program, Scope]]:
    """The functions of other files that a call in a file of `caller` runs, as `program` has
    them.
    """
    methods = methods_abroad(caller, call, scope)
    found = (
        *run_by(caller, call, scope),
        *((home, home.scope(one)) for home, one in methods),
    )
    for home, inner in dict.fromkeys(found):
        if home is not caller and isinstance(inner.node, FUNCTIONS):
            where, body = own_version(program, home, inner.node)
            yield where, where.scope(body)


def given_facts(
    asked: Asked, call: ast.Call, scope: Scope, inner: Scope
) -> Iterator[tuple[Binding, Fact]]:
    bound = inner.takes_receiver
    for one in inner.parameters():
        held = inner.bindings.get(one.arg, ())
        given = argument(call, inner, one.arg, bound)
        if given is not None and held and held[0].how == "parameter":
            yield held[0], asked.fact(given, scope)
    yield from _rest(asked, call, scope, inner)


def _rest(
    asked: Asked, call: ast.Call, scope: Scope, inner: Scope
) -> Iterator[tuple[Binding, Fact]]:
    """What goes into `*args`."""
    for name, held in inner.bindings.items():
        bound = inner.takes_receiver
        rest = rest_arguments(call, inner, name, bound) or ()
        facts = [asked.fact(one, scope) for one in rest]
        if facts and held[0].how == "parameter":
            yield held[0], join(facts)._replace(container=True)
