"""From which statements of a module its functions and classes are reached while it is imported."""

from __future__ import annotations

import ast
from functools import cached_property

from amp_migrate.model.calls.call_graph import CallGraph
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Module, Scope

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


class TopLevelUses:
    """Where the definitions of modules are named: in their own statements, or in each other."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._named: dict[ast.AST, list[ast.Name]] | None = None
        self._starts: dict[ast.AST, list[ast.Name]] = {}
        self._escapes: dict[Function, bool] = {}

    def escapes(self, function: Function, graph: CallGraph) -> bool:
        """Whether a function is used other than by calling it, remembered."""
        if function not in self._escapes:
            self._escapes[function] = graph.escapes(function)
        return self._escapes[function]

    def starts(self, scope: Scope) -> list[ast.Name]:
        """The names in statements of the module through which the body of `scope` may be reached
        while the module is imported.
        """
        top = self.definition_around(scope)
        if top is None:
            return []
        if top not in self._starts:
            self._starts[top] = self._reached_from(top)
        return self._starts[top]

    def runs_whole(self, scope: Scope, graph: CallGraph) -> bool:
        """Whether a module runs a function whenever it is run, and nothing else in sight does: a
        script, whose end (behind a `try` around all of it) tells nothing of what held there.
        """
        top, starts = self.definition_around(scope), self.starts(scope)
        if not isinstance(top, FUNCTIONS) or not starts:
            return False
        above = (one for node in starts for one in self.module.ancestors(node))
        sites = graph.sites(top)
        return not any(isinstance(one, ast.If) for one in above) and all(
            site.scope.module is scope.module for site in sites
        )

    def _reached_from(self, top: ast.AST) -> list[ast.Name]:
        found: list[ast.Name] = []
        seen: list[ast.AST] = [top]
        for definition in seen:  # grows while it is read
            for name in self._uses().get(definition, ()):
                around = self.definition_around(self.module.scope_of(name))
                if around is None:
                    found.append(name)
                elif around not in seen:
                    seen.append(around)
        return found

    def definition_around(self, scope: Scope) -> ast.stmt | None:
        """The outermost function or class that holds a scope; None for the module itself."""
        outermost: ast.stmt | None = None
        here: Scope | None = scope
        while here is not None and here.parent is not None:
            outermost = (
                here.node if isinstance(here.node, _DEFINITIONS) else None
            )
            here = here.parent
        return outermost

    def _uses(self) -> dict[ast.AST, list[ast.Name]]:
        """The names that read each definition at the top of a module; bases of classes run
        nothing.
        """
        if self._named is None:
            self._named = {}
            bases = {
                b
                for n in self.module.scopes
                if isinstance(n, ast.ClassDef)
                for b in n.bases
            }
            for node in self.module.parents:
                if isinstance(node, ast.Name) and node not in bases:
                    for definition in self._read_by(node):
                        self._named.setdefault(definition, []).append(node)
        return self._named

    def _read_by(self, node: ast.Name) -> list[ast.AST]:
        if not isinstance(node.ctx, ast.Load) or node.id not in self._names:
            return []
        home = self.module.scope_of(node).lookup(node.id)
        if home is None or home.parent is not None:
            return []
        return [b.statement for b in home.bindings[node.id] if b.how == "def"]

    @cached_property
    def _names(self) -> frozenset[str]:
        roots = {
            id(s.root): s.root
            for s in self.module.scopes.values()
            if s.parent is None
        }
        return frozenset(
            name
            for root in roots.values()
            for name, bindings in root.bindings.items()
            if any(isinstance(b.statement, _DEFINITIONS) for b in bindings)
        )
