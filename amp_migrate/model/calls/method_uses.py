"""Which methods a program calls on its variables and attributes."""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Module, Scope


class MethodUses:
    """Answers `methods_used` for one program."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._methods: dict[tuple[int, str], set[str]] | None = None

    def methods_used(self, name: str, scope: Scope) -> set[str]:
        """Names of the methods called on the variable or `self` attribute `name`, anywhere it is
        that variable.
        """
        if self._methods is None:
            self._methods = self._all_methods()
        home = self._home(name, scope)
        return (
            self._methods.get((id(home), name), set())
            if home is not None
            else set()
        )

    def _home(self, name: str, scope: Scope) -> object | None:
        """The scope, or the class, that holds a variable or an attribute of `self`."""
        head, _, rest = name.partition(".")
        here: Scope | None = scope
        while here is not None:
            if rest and here.self_name == head:
                return here.owner
            here = here.parent
        return scope.lookup(head)

    def _all_methods(self) -> dict[tuple[int, str], set[str]]:
        found: dict[tuple[int, str], set[str]] = {}
        for scope in self.module.scopes.values():
            for call in scope.calls:
                if isinstance(call.func, ast.Attribute) and (
                    holder := dotted_name(call.func.value)
                ):
                    home = self._home(holder, scope)
                    if home is not None:
                        found.setdefault((id(home), holder), set()).add(
                            call.func.attr
                        )
        return found
