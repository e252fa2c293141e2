"""Places that are computed in one file, and seen by fast sines in another: what they are made of,
only all of these files together tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.encoded_places import turned_places
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.moved_places import made_of
from amp_migrate.model.half_safety.products import product_factors
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, returned
from amp_migrate.planner.half_safety.handed_facts import HandedFacts, run_abroad
from amp_migrate.planner.half_safety.reach import reachable

_HOPS = 6


def sees_products(handed: HandedFacts) -> bool:
    """Whether the sines of one file see products of matrices of another."""
    return _Places(handed).any_of_products()


class _Places:
    """Follows places back through the calls between files."""

    def __init__(self, handed: HandedFacts) -> None:
        self._handed = handed
        self._asked = {
            asked.inference.program: asked for asked, _, _ in handed.added
        }
        self._seen: set[ast.expr] = set()

    def any_of_products(self) -> bool:
        """Whether a product lies behind any of the sines."""
        return any(
            self._is_of_product(asked, place, home, _HOPS)
            for asked, statements, scope in self._handed.added
            for node, where in reachable(
                asked.inference.program, statements, scope
            )
            for place, home in turned_places(asked, node, where)
        )

    def _is_of_product(
        self, asked: Asked, expr: ast.expr, scope: Scope, hops: int
    ) -> bool:
        for one, home in made_of(asked, expr, scope) if hops else ():
            if one in self._seen:
                continue
            self._seen.add(one)
            if product_factors(asked, one, home):
                return True
            if isinstance(one, ast.Name):
                is_so = self._is_named(asked, one, hops)
            else:
                is_so = isinstance(one, ast.Call) and any(
                    self._is_of_product(other, value, inner, hops - 1)
                    for other, value, inner in self._returned(asked, one, home)
                )
            if is_so:
                return True
        return False

    def _is_named(self, asked: Asked, name: ast.Name, hops: int) -> bool:
        """Whether a call of another file gives a parameter such places, or a function of another
        file gives them among others.
        """
        module = asked.inference.program.module
        scope = module.scope_of(name)
        found: list[tuple[Asked, ast.expr, Scope]] = []
        for one in asked.inference.program.reaching.at(name, name.id).bindings:
            if one.how == "parameter":
                found += self._handed.given(name.id, scope)
            elif isinstance(one.value, ast.Call) and one.index is not None:
                home = module.scope_of(one.value)
                for other, value, inner in self._returned(
                    asked, one.value, home
                ):
                    parts = value.elts if isinstance(value, ast.Tuple) else []
                    for part in parts[one.index : one.index + 1]:
                        found.append((other, part, inner))
        return any(self._is_of_product(*given, hops - 1) for given in found)

    def _returned(
        self, asked: Asked, call: ast.Call, scope: Scope
    ) -> Iterator[tuple[Asked, ast.expr, Scope]]:
        """What the functions of other files that a call runs give back."""
        program = asked.inference.program
        run = [*run_abroad(self._handed.program, call, scope, program)]
        if isinstance(call.func, ast.Name):
            for one in self._handed.given(call.func.id, scope):
                run += _forwards(*one)
        for home, inner in run:
            other = self._asked.get(home)
            if other is not None and isinstance(inner.node, FUNCTIONS):
                for value in returned(inner.node):
                    yield other, value, inner


def _forwards(
    asked: Asked, model: ast.expr, scope: Scope
) -> Iterator[tuple[Program, Scope]]:
    """What a model runs that is passed to a function of another file."""
    program = asked.inference.program
    value = program.values.of(model, scope)
    home, cls = value.foreign or (program, value.cls)
    forward = home.graph.method(cls, "forward") if cls is not None else None
    if forward is not None:
        yield home, home.scope(forward)
