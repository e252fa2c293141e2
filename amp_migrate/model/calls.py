"""Who calls whom: definitions behind a call, and the call sites of a definition, in the modules in sight."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from amp_migrate.model.syntax import FUNCTIONS, Function, Module, Scope
from amp_migrate.names import dotted_name


class CallSite(NamedTuple):
    """One call of a function in sight, and the scope that evaluates it."""

    call: ast.Call
    scope: Scope
    bound: bool
    """Whether the first parameter (`self`) is given by the call's receiver."""


class CallGraph:
    """Definitions and call sites of one module; asked by name, resolved by scope and class."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._lineages: dict[ast.ClassDef, list[ast.ClassDef]] = {}
        self._calls: dict[str, list[tuple[ast.Call, Scope]]] = {}
        for scope in module.scopes.values():
            for call in scope.calls:
                name = _last_name(call.func)
                if name is not None:
                    self._calls.setdefault(name, []).append((call, scope))

    def classes(self) -> Iterator[ast.ClassDef]:
        """Every class of the module."""
        return (node for node in self.module.scopes if isinstance(node, ast.ClassDef))

    def class_named(self, expr: ast.expr, scope: Scope) -> ast.ClassDef | None:
        """The class definition that a name refers to."""
        return next((node for node in self._definitions(expr, scope) if isinstance(node, ast.ClassDef)), None)

    def _definitions(self, expr: ast.expr, scope: Scope) -> list[ast.AST]:
        """What binds a name, here or in the file of the program that it is imported from."""
        home = scope.lookup(expr.id) if isinstance(expr, ast.Name) else None
        found = [b.statement for b in home.bindings[expr.id]] if home and isinstance(expr, ast.Name) else []
        if any(isinstance(node, (*FUNCTIONS, ast.ClassDef)) for node in found) or len(self.module.files) == 1:
            return found
        dotted = dotted_name(expr)
        origin = self.module.elsewhere(dotted, scope) if dotted is not None else None
        return [b.statement for b in origin[0].bindings[origin[1]]] if origin else found

    def lineage(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        """The class and its bases in this module, nearest first."""
        if cls not in self._lineages:
            self._lineages[cls] = self._bases_of(cls)
        return list(self._lineages[cls])

    def _bases_of(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        found = [cls]
        for owner, base in ((c, b) for c in found for b in c.bases):  # grows while it is read
            parent = self.class_named(base, self.module.scopes[owner].parent or self.module.root)
            if parent is not None and parent not in found:
                found.append(parent)
        return found

    def heirs(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        """The class and every class of this module that derives from it."""
        return [other for other in self.classes() if cls in self.lineage(other)]

    def method(self, cls: ast.ClassDef, name: str) -> Function | None:
        """The method `name` of a class or of its bases in this module."""
        for owner in self.lineage(cls):
            for node in owner.body:
                if isinstance(node, FUNCTIONS) and node.name == name:
                    return node
        return None

    def class_around(self, scope: Scope) -> ast.ClassDef | None:
        """The class whose method holds `scope`."""
        here: Scope | None = scope
        while here is not None:
            if here.owner is not None and isinstance(here.owner.node, ast.ClassDef):
                return here.owner.node
            here = here.parent
        return None

    def function_named(self, name: str, scope: Scope) -> Function | None:
        """The function definition that a plain name refers to."""
        return self.function_at(ast.Name(name, ast.Load()), scope)

    def function_at(self, expr: ast.expr, scope: Scope) -> Function | None:
        """The function definition that a name, or an attribute of another file's module, refers to."""
        found = self._definitions(expr, scope)
        return found[-1] if found and isinstance(found[-1], FUNCTIONS) else None

    def sites(self, function: Function) -> list[CallSite]:
        """Calls that may reach `function`: by name, by `self`, or by an attribute of that name no other class defines."""
        scope = self.module.scopes[function]
        owner = scope.owner
        found = []
        for call, caller in self._called(function.name):
            if owner is None:
                if self.function_at(call.func, caller) is function:
                    found.append(CallSite(call, caller, bound=False))
            elif isinstance(call.func, ast.Attribute):
                found.append(CallSite(call, caller, bound=scope.self_name is not None))
        return found

    def constructions(self, cls: ast.ClassDef) -> list[tuple[ast.Call, Scope]]:
        """Calls `Cls(...)` in this module."""
        return [(call, caller) for call, caller in self._called(cls.name) if self.class_named(call.func, caller) is cls]

    def _called(self, name: str) -> list[tuple[ast.Call, Scope]]:
        """Calls of something that is defined as `name`, under whatever name the caller's file gives it."""
        return [site for local in sorted(self.module.local_names(name)) for site in self._calls.get(local, ())]

    def escapes(self, function: Function) -> bool:
        """Whether the function is used other than by calling it (callback, table, decorator registry)."""
        called = {id(call.func) for calls in self._calls.values() for call, _ in calls}
        names = self.module.local_names(function.name)
        for node in self.module.parents:
            named = isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
            attribute = (
                isinstance(node, ast.Attribute) and node.attr == function.name and isinstance(node.ctx, ast.Load)
            )
            if (named or attribute) and id(node) not in called and not self._other_name(node, function):
                return True
        return False

    def _other_name(self, node: ast.AST, function: Function) -> bool:
        """Whether a name or attribute that reads like `function` is something else."""
        owner = self.module.scopes[function].owner
        if owner is None:
            return not isinstance(node, ast.expr) or self.function_at(node, self.module.scope_of(node)) is not function
        return not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))


def _last_name(func: ast.expr) -> str | None:
    if isinstance(func, ast.Name):
        return func.id
    return func.attr if isinstance(func, ast.Attribute) else None


def argument(call: ast.Call, scope: Scope, parameter: str, bound: bool) -> ast.expr | None:
    """What `call` passes for `parameter` of the function at `scope`; None where it cannot be told."""
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    names = [a.arg for a in scope.parameters()][1 if bound else 0 :]
    if parameter not in names or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    index = names.index(parameter)
    return call.args[index] if index < len(call.args) else None
