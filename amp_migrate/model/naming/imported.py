"""Definitions in other files of the project, behind the names that a module imports."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.naming.import_calls import module_held
from amp_migrate.model.naming.import_reads import is_import
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.project.import_paths import resolved

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import (
        Definition,
        Neighbours,
        Variable,
    )


class Imported:
    """Finds what imported names stand for outside of the files of the program."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._definitions: dict[tuple[ast.expr, Scope], Definition | None] = {}
        # By the file that imports, and the name: the same names are asked for at many places, and
        # each asks the disk for every file that may be meant.
        self._found: dict[tuple[str, str], Definition | None] = {}
        self._variables: dict[tuple[str, str], Variable | None] = {}

    def variable(self, expr: ast.expr, scope: Scope) -> Variable | None:
        """The program and the bindings of an imported name that is a variable of another file."""
        dotted = dotted_name(expr)
        return (
            self.variable_named(dotted, scope) if dotted is not None else None
        )

    def variable_named(self, dotted: str, scope: Scope) -> Variable | None:
        """The same of a dotted name."""
        neighbours = scope.module.neighbours
        head, _, rest = dotted.partition(".")
        if neighbours is None:
            return None
        tail = f".{rest}" if rest else ""
        found = (
            self._variable(neighbours, f"{origin}{tail}")
            for origin in self._origins(head, dotted, scope)
        )
        return next((one for one in found if one is not None), None)

    def _variable(self, near: Neighbours, name: str) -> Variable | None:
        """The variable of another file that a name stands for."""
        key = near.path, name
        if key not in self._variables:
            self._variables[key] = near.variable(name)
        return self._variables[key]

    def _find(self, near: Neighbours, name: str) -> Definition | None:
        """The class or function that it does; a static or class method, too."""
        key = near.path, name
        if key not in self._found:
            found = near.find(name)
            self._found[key] = found or self._method(near, name)
        return self._found[key]

    def _method(self, near: Neighbours, name: str) -> Definition | None:
        """`Layer.penalty` of a class of another file, which is called without an object."""
        holder, _, last = name.rpartition(".")
        home, cls = (near.find(holder) if holder else None) or (None, None)
        if home is None or not isinstance(cls, ast.ClassDef):
            return None
        method = home.graph.method(cls, last)
        if method is None or home.scope(method).self_name is not None:
            return None
        return home, method

    def _origins(self, head: str, dotted: str, scope: Scope) -> list[str]:
        """What the head of an imported name may stand for in files that are not linked."""
        if self.module.elsewhere(dotted, scope) is not None:
            return []
        origin = scope.module.imports.names.get(head)
        if origin is None:
            return [] if scope.lookup(head) else _by_stars(scope.module, head)
        is_near = not origin.startswith("torch")
        return [origin] if is_near and is_import(head, scope) else []

    def definition(self, expr: ast.expr, scope: Scope) -> Definition | None:
        """The class or function in another file of the project that an imported name refers to."""
        key = (expr, scope)
        if key not in self._definitions:
            self._definitions[key] = self._definition(expr, scope)
        return self._definitions[key]

    def _definition(self, expr: ast.expr, scope: Scope) -> Definition | None:
        neighbours = scope.module.neighbours
        if neighbours is None:
            return None
        canonical = self.module.canonical(expr)
        if canonical is None:
            held = self._of_import_call(neighbours, expr, scope)
            return held or self._from_star(expr, scope)
        if canonical.startswith("torch.") or not self.is_import(expr, scope):
            return None
        dotted = dotted_name(expr) or ""
        holder = dotted.rpartition(".")[0]
        if any(
            self.module.elsewhere(one, scope, expr) is not None
            for one in (dotted, holder)
        ):
            return None
        others = scope.module.imports.otherwise(dotted)
        names = (canonical, *others)
        found = (self._find(neighbours, one) for one in names)
        return next((one for one in found if one is not None), None)

    def each(self, expr: ast.expr, scope: Scope) -> list[Definition]:
        """What each import statement of the file brings by a name, out of files that are not
        linked.
        """
        near, canonical = scope.module.neighbours, self.module.canonical(expr)
        dotted = dotted_name(expr) or ""
        if near is None or canonical is None:
            return []
        if not self.is_import(expr, scope):
            return []
        linked = {
            resolved(home.module.path)
            for home, _ in self.module.everywhere(dotted, scope, expr)
        }
        names = (canonical, *scope.module.imports.otherwise(dotted))
        found = (self._find(near, one) for one in names)
        return [
            one
            for one in found
            if one is not None and resolved(one[0].module.path) not in linked
        ]

    def exported(self, expr: ast.expr, scope: Scope) -> list[Definition]:
        """What the module of the project that `expr` names has names for; nothing where it is no
        module of the project.
        """
        near = scope.module.neighbours
        name = self._near(expr, scope)
        if near is None or name is None:
            return []
        return near.exported(name)

    def is_module(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether `expr` names a module of the project."""
        near = scope.module.neighbours
        name = self._near(expr, scope)
        if near is None or name is None:
            return False
        return near.module(name) is not None

    def _near(self, expr: ast.expr, scope: Scope) -> str | None:
        """The name of what is imported, unless that is of torch."""
        called = module_held(expr, scope)
        if called is not None:
            return called
        name = self.module.canonical(expr)
        if name is None or name.startswith("torch."):
            return None
        if not self.is_import(expr, scope):
            return None
        return name

    def is_import(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether the head of a dotted name is an import, and nothing else, as seen from there."""
        head = (dotted_name(expr) or "").partition(".")[0]
        return is_import(head, scope, expr)

    def _of_import_call(
        self, near: Neighbours, expr: ast.expr, scope: Scope
    ) -> Definition | None:
        """`losses.Dice` of `losses = import_module("losses")`."""
        if not isinstance(expr, ast.Attribute):
            return None
        module = module_held(expr.value, scope)
        if module is None:
            return None
        return self._find(near, f"{module}.{expr.attr}")

    def _from_star(self, expr: ast.expr, scope: Scope) -> Definition | None:
        """A name that only `from losses import *` can have brought."""
        neighbours = scope.module.neighbours
        if neighbours is None or not isinstance(expr, ast.Name):
            return None
        if (
            scope.lookup(expr.id) is not None
            or self.module.elsewhere(expr.id, scope) is not None
        ):
            return None
        names = _by_stars(scope.module, expr.id)
        found = (self._find(neighbours, one) for one in names)
        return next(
            (definition for definition in found if definition is not None), None
        )


def _by_stars(module: Module, name: str) -> list[str]:
    """What a name may stand for that only `from losses import *` can have brought."""
    stars = (s for s in module.imports.stars if not s.startswith("torch"))
    return [
        f"{star}{name}" if star.endswith(".") else f"{star}.{name}"
        for star in stars
    ]
