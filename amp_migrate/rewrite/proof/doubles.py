"""Where float64 is made in a file: a value that nothing in sight gives a dtype may come from there,
where the code that can reach it does.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeAlias

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Module
from amp_migrate.rewrite.proof.forms import Forms
from amp_migrate.torch_facts.amp_api import DOUBLES, SETS_DTYPE

_Top: TypeAlias = ast.stmt | None
"""A function or class of the module level; None: its other statements."""


class Doubles:
    """What one file says of float64."""

    def __init__(self, program: Program, file: Module, forms: Forms) -> None:
        """`forms` tell what is an addition: that says nothing of the original."""
        self.program = program
        self.file = file
        self._said: dict[_Top, set[str]] = defaultdict(set)
        self._saying: dict[str, set[_Top]] = defaultdict(set)
        self._own: dict[str, set[_Top]] = defaultdict(set)
        """Who asks `self` for it: only a class that inherits it is meant."""
        self._defining: dict[str, set[_Top]] = defaultdict(set)
        self._made: set[_Top] = set()
        self.is_default = False
        """Whether float64 may be what new tensors have."""
        for node in file.nodes:
            if isinstance(node, ast.Name):
                self._read(node)
            elif isinstance(node, ast.Attribute):
                if not forms.is_scaler(node.value):
                    self._read(node)
        for top in self._said:
            for name in self._defined(top):
                self._defining[name].add(top)

    def _read(self, node: ast.Name | ast.Attribute) -> None:
        top, canonical = self._top(node), self.program.canonical(node)
        name = node.id if isinstance(node, ast.Name) else node.attr
        saying = self._own if self._is_own(node) else self._saying
        saying[name].add(top)
        self._said[top].add(name)
        if isinstance(node, ast.Attribute) and name == "double":
            self._made.add(top)
        if canonical in DOUBLES:
            self._made.add(top)
        self.is_default |= canonical in SETS_DTYPE

    def _is_own(self, node: ast.Name | ast.Attribute) -> bool:
        if isinstance(node, ast.Name):
            return False
        scope = self.program.module.scope_of(node)
        me = scope.self_name
        return me is not None and dotted_name(node.value) == me

    def reach(self, node: ast.AST) -> bool:
        """Whether float64 is made in the code around a node, in what that names, in what names it
        and in what such code names.
        """
        above = _closed([self._top(node)], self._naming)
        return not self._made.isdisjoint(_closed(above, self._named))

    def _top(self, node: ast.AST) -> _Top:
        """What of the module level holds a node."""
        around = [
            one
            for one in (node, *self.file.ancestors(node))
            if isinstance(one, (*FUNCTIONS, ast.ClassDef))
        ]
        return around[-1] if around else None

    def _defined(self, top: _Top) -> set[str]:
        """The names by which others reach a definition: its own, and those of its methods."""
        if not isinstance(top, (*FUNCTIONS, ast.ClassDef)):
            return set()
        inner = top.body if isinstance(top, ast.ClassDef) else ()
        methods = {one.name for one in inner if isinstance(one, FUNCTIONS)}
        return {top.name} | {one for one in methods if one[:2] != "__"}

    def _naming(self, top: _Top) -> Iterable[_Top]:
        bases = (
            self.program.graph.lineage(top)
            if isinstance(top, ast.ClassDef)
            else ()
        )
        for name in self._defined(top):
            yield from self._saying[name]
            yield from self._own[name].intersection(bases)

    def _named(self, top: _Top) -> Iterable[_Top]:
        for name in self._said[top]:
            yield from self._defining[name]


def _closed(
    first: Iterable[_Top], step: Callable[[_Top], Iterable[_Top]]
) -> set[_Top]:
    """All that steps lead to."""
    found: set[_Top] = set()
    waiting = [*first]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += step(one)
    return found
