"""Who calls whom: definitions behind a call, and the call sites of a definition, in the modules in
sight.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import TypeAlias

from amp_migrate.model.calls.arguments import fits, gives_self
from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.calls.handed_calls import all_followed, handed_calls
from amp_migrate.model.calls.handed_nowhere import stays
from amp_migrate.model.calls.object_calls import (
    ObjectFlow,
    classes_made,
    is_inherited,
)
from amp_migrate.model.calls.overridden import (
    have_method,
    heirs_that_run,
    method_of_self,
)
from amp_migrate.model.calls.receivers import is_module, is_of_torch
from amp_migrate.model.classes.construction_sites import ConstructionSites
from amp_migrate.model.naming.import_reads import is_import
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.naming.redefinitions import known_by_then
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Module, Scope

Site: TypeAlias = tuple[ast.Call, Scope]
"""A call, and the scope that evaluates it."""


class CallGraph:
    """Definitions and call sites of one module; asked by name, resolved by scope and class."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._lineages: dict[ast.ClassDef, list[ast.ClassDef]] = {}
        self._methods_of: dict[ast.ClassDef, dict[str, Function]] = {}
        self._heirs: dict[ast.ClassDef, list[ast.ClassDef]] = {}
        self._sites: dict[Function, list[CallSite]] = {}
        self._handed_sites: dict[Function, list[CallSite]] = {}
        self._mentions: dict[Function, list[ast.Name | ast.Attribute]] = {}
        self._constructions: dict[
            ast.ClassDef, list[tuple[ast.Call, Scope]]
        ] = {}
        self._defined: dict[tuple[str, bool, Scope, bool], list[ast.AST]] = {}
        self._own_calls: dict[
            str, tuple[dict[ast.ClassDef, list[Site]], list[Site]]
        ] = {}
        self._own_classes: dict[
            tuple[ast.ClassDef, Function], list[ast.ClassDef]
        ] = {}
        self._behind: dict[tuple[ast.expr, Scope], list[ast.AST]] = {}
        self._objects = ObjectFlow(self)
        self._calls: dict[str, list[tuple[ast.Call, Scope]]] = {}
        for scope in module.scopes.values():
            for call in scope.calls:
                name = _last_name(call.func)
                if name is not None:
                    self._calls.setdefault(name, []).append((call, scope))

    def calls(self) -> Iterator[Site]:
        """Every call of the module whose function has a name."""
        return (site for sites in self._calls.values() for site in sites)

    def calls_of(self, name: str) -> list[Site]:
        """The calls of whatever is called so."""
        return list(self._calls.get(name, ()))

    def classes(self) -> Iterator[ast.ClassDef]:
        """Every class of the module."""
        return (
            node
            for node in self.module.scopes
            if isinstance(node, ast.ClassDef)
        )

    def class_named(self, expr: ast.expr, scope: Scope) -> ast.ClassDef | None:
        """The class definition that a name refers to."""
        for node in reversed(self.definitions(expr, scope)):
            if isinstance(node, ast.ClassDef):
                return node
        return None

    def definitions(self, expr: ast.expr, scope: Scope) -> list[ast.AST]:
        """What binds a name, here or in the file of the program that it is imported from.
        Remembered: names come again.
        """
        place = (expr, scope)
        known = self._behind.get(place)
        if known is None:
            dotted = dotted_name(expr)
            is_name = isinstance(expr, ast.Name)
            found = self._named(dotted, is_name, scope, expr) if dotted else []
            known = known_by_then(self.module, found, expr, scope)
            self._behind[place] = known
        return known

    def _named(
        self, dotted: str, plain: bool, scope: Scope, node: ast.expr | None
    ) -> list[ast.AST]:
        imported = is_import(dotted.partition(".")[0], scope, node)
        key = (dotted, plain, scope, imported)
        if key not in self._defined:
            self._defined[key] = self._found(dotted, plain, scope, node)
        return self._defined[key]

    def _found(
        self, dotted: str, plain: bool, scope: Scope, node: ast.expr | None
    ) -> list[ast.AST]:
        home = scope.lookup(dotted) if plain else None
        bound = home.bindings[dotted] if home else []
        found: list[ast.AST] = [one.statement for one in bound]
        kinds = (*FUNCTIONS, ast.ClassDef)
        is_here = any(isinstance(one, kinds) for one in found)
        if is_here or len(self.module.files) == 1:
            return found
        origin = self.module.elsewhere(dotted, scope, node)
        bound = origin[0].bindings[origin[1]] if origin else bound
        return [one.statement for one in bound]

    def lineage(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        """The class and its bases in this module, nearest first."""
        if cls not in self._lineages:
            self._lineages[cls] = self._bases_of(cls)
        return list(self._lineages[cls])

    def _bases_of(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        found = [cls]
        for owner, base in (
            (c, b) for c in found for b in c.bases
        ):  # grows while it is read
            parent = self.class_named(
                base, self.module.scopes[owner].parent or self.module.root
            )
            if parent is not None and parent not in found:
                found.append(parent)
        return found

    def heirs(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        """The class and every class of this module that derives from it."""
        if not self._heirs:
            for other in self.classes():
                for ancestor in self.lineage(other):
                    self._heirs.setdefault(ancestor, []).append(other)
        return list(self._heirs.get(cls, (cls,)))

    def own_classes(
        self, cls: ast.ClassDef, name: str, scope: Scope
    ) -> list[ast.ClassDef]:
        """What `self` may be of in a scope of a class: the class, and the heirs that run it."""
        method = method_of_self(scope, name)
        if method is None:
            return self.heirs(cls)
        key = cls, method
        if key not in self._own_classes:
            self._own_classes[key] = heirs_that_run(self, cls, method)
        return self._own_classes[key]

    def method(self, cls: ast.ClassDef, name: str) -> Function | None:
        """The method `name` of a class or of its bases in this module."""
        own = self._methods_of.get(cls)
        if own is None:
            own = self._methods_of[cls] = {}
            for node in (
                node for owner in self.lineage(cls) for node in owner.body
            ):
                if isinstance(node, FUNCTIONS):
                    own.setdefault(node.name, node)
        return own.get(name)

    def methods_named(self, name: str) -> list[Function]:
        """Every method of that name in the program."""
        return list(self._methods.get(name, ()))

    @cached_property
    def _methods(self) -> dict[str, list[Function]]:
        found: dict[str, list[Function]] = {}
        for cls in self.classes():
            for node in cls.body:
                if isinstance(node, FUNCTIONS):
                    found.setdefault(node.name, []).append(node)
        return found

    def class_around(self, scope: Scope) -> ast.ClassDef | None:
        """The class whose method holds `scope`."""
        here: Scope | None = scope
        while here is not None:
            if here.owner is not None and isinstance(
                here.owner.node, ast.ClassDef
            ):
                return here.owner.node
            here = here.parent
        return None

    def function_named(self, name: str, scope: Scope) -> Function | None:
        """The function definition that a plain name refers to."""
        return _function(self._named(name, True, scope, None))

    def function_at(self, expr: ast.expr, scope: Scope) -> Function | None:
        """The function definition that a name, or an attribute of another file's module, refers
        to.
        """
        return _function(self.definitions(expr, scope))

    def sites(self, function: Function) -> list[CallSite]:
        """Calls that may reach `function`: by name, by `self`, or by an attribute of that name no
        other class defines.
        """
        if function not in self._sites:
            self._sites[function] = self._sites_of(function)
        return list(self._sites[function])

    def runs(self, function: Function) -> list[CallSite]:
        """The same, and calls by what the function is handed to, which stand nowhere in the text:
        what its parameters may be given.
        """
        if function not in self._handed_sites:
            self._handed_sites[
                function
            ] = []  # for a function that hands itself on
            self._handed_sites[function] = list(handed_calls(self, function))
        return [*self.sites(function), *self._handed_sites[function]]

    @cached_property
    def constructors(self) -> ConstructionSites:
        """What runs the `__init__` of a class."""
        return ConstructionSites(self)

    def is_followed(self, function: Function) -> bool:
        """Whether `runs` are all of its calls, as far as files in sight go."""
        return not self.escapes(function) or all_followed(self, function)

    def mentions(self, function: Function) -> list[ast.Name | ast.Attribute]:
        """Where a function is named other than to call it."""
        if function not in self._mentions:
            named = [
                node
                for name in self.module.local_names(function.name)
                for node in self._handed.get(name, ())
                if isinstance(node, ast.Name) or name == function.name
            ]
            found = [
                node for node in named if not self._other_name(node, function)
            ]
            self._mentions[function] = found
        return list(self._mentions[function])

    def _sites_of(self, function: Function) -> list[CallSite]:
        scope = self.module.scopes[function]
        owner = scope.owner
        if function.name == "__call__" and owner is not None:
            assert isinstance(owner.node, ast.ClassDef)
            return [
                CallSite(c, s, bound=True)
                for c, s in self._objects.calls_of(owner.node)
            ]
        if owner is not None:
            assert isinstance(owner.node, ast.ClassDef)
            is_method = scope.takes_receiver
            return [
                CallSite(c, s, is_method and not gives_self(c, function))
                for c, s in self._method_calls(function, owner.node)
            ]
        return [
            CallSite(call, caller, bound=False)
            for call, caller in self._called(function.name)
            if self.function_at(call.func, caller) is function
        ]

    def _method_calls(
        self, function: Function, cls: ast.ClassDef
    ) -> Iterator[Site]:
        """Calls of an attribute of that name, but for those of objects that have another."""
        own, others = self._by_class(function.name)
        for one, sites in own.items():
            for call, caller in sites:
                kinds = self.own_classes(one, caller.self_name or "", caller)
                if have_method(self, kinds, function):
                    yield call, caller
        for site in others:
            made = classes_made(self, site)
            inherited = is_inherited(self, site, cls)
            if inherited is not None:
                related = inherited
            elif made is None:
                # `Trainer.step(trainer, x)` gives the object, too.
                ways = (fits(site[0], function, one) for one in (True, False))
                related = any(ways)
            else:
                heirs = chain(*(self.heirs(one) for one in made))
                related = have_method(self, heirs, function)
            if related:
                yield site

    def _by_class(
        self, name: str
    ) -> tuple[dict[ast.ClassDef, list[Site]], list[Site]]:
        """The calls of an attribute of some name: on `self`, by class, and on anything else."""
        if name not in self._own_calls:
            own: dict[ast.ClassDef, list[Site]] = {}
            others = []
            for call, caller in self._called(name):
                holder = (
                    call.func.value
                    if isinstance(call.func, ast.Attribute)
                    else None
                )
                around = caller.owner.node if caller.owner is not None else None
                is_own = (
                    isinstance(holder, ast.Name)
                    and holder.id == caller.self_name
                )
                if is_own and isinstance(around, ast.ClassDef):
                    own.setdefault(around, []).append((call, caller))
                elif holder is not None and not (
                    is_of_torch(self, holder, caller)
                    or is_module(holder, caller)
                ):
                    others.append((call, caller))
            self._own_calls[name] = own, others
        return self._own_calls[name]

    def constructions(self, cls: ast.ClassDef) -> list[tuple[ast.Call, Scope]]:
        """Calls `Cls(...)` in this module."""
        if cls not in self._constructions:
            self._constructions[cls] = [
                (call, caller)
                for call, caller in self._called(cls.name)
                if self.class_named(call.func, caller) is cls
            ]
        return list(self._constructions[cls])

    def _called(self, name: str) -> list[tuple[ast.Call, Scope]]:
        """Calls of something that is defined as `name`, under whatever name the caller's file
        gives it.
        """
        return [
            site
            for local in sorted(self.module.local_names(name))
            for site in self._calls.get(local, ())
        ]

    def escapes(self, function: Function) -> bool:
        """Whether the function is used other than by calling it (callback, table, decorator
        registry).
        """
        return bool(self.mentions(function))

    @cached_property
    def _handed(self) -> dict[str, list[ast.Name | ast.Attribute]]:
        """Names and attributes that are read and not called, by their last name."""
        called = {
            id(call.func) for calls in self._calls.values() for call, _ in calls
        }
        found: dict[str, list[ast.Name | ast.Attribute]] = {}
        for node in self.module.parents:
            if (
                not isinstance(node, (ast.Name, ast.Attribute))
                or id(node) in called
            ):
                continue
            if isinstance(node.ctx, ast.Load):
                name = node.id if isinstance(node, ast.Name) else node.attr
                found.setdefault(name, []).append(node)
        return found

    def _other_name(self, node: ast.AST, function: Function) -> bool:
        """Whether a name or attribute that reads like `function` is something else."""
        owner = self.module.scopes[function].owner
        if owner is None:
            return (
                not isinstance(node, ast.expr)
                or self.function_at(node, self.module.scope_of(node))
                is not function
            )
        return (
            not isinstance(node, ast.Attribute)
            or not isinstance(node.value, ast.Name)
            or stays(self.module, node)
        )


def _function(found: list[ast.AST]) -> Function | None:
    return found[-1] if found and isinstance(found[-1], FUNCTIONS) else None


def _last_name(func: ast.expr) -> str | None:
    """`step` of `optimizer.step`, `train` of `train`."""
    if isinstance(func, ast.Name):
        return func.id
    return func.attr if isinstance(func, ast.Attribute) else None
