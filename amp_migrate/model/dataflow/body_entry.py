"""What names and attributes hold where a body begins to run: from callers, enclosing scopes and
the object's class.

A function may run long after its module, or on its own when the module is imported. So a global is
bound for certain only where it is bound at the end of the module, without the statements under
`if __name__ == "__main__":`, and at every statement that leads to the function while the module is
being run.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.classes.ancestry import ancestry, is_field
from amp_migrate.model.dataflow.entries import Open
from amp_migrate.model.dataflow.followed_once import FollowedOnce
from amp_migrate.model.dataflow.namespaces import given_by_name
from amp_migrate.model.dataflow.reach import ASSUMED, Reach
from amp_migrate.model.dataflow.top_level import TopLevelUses
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.settings.command_line import declares
from amp_migrate.model.syntax.module import (
    FUNCTIONS,
    Binding,
    Function,
    Scope,
    returned,
)
from amp_migrate.torch_facts.gradients import AUTOGRAD_FUNCTIONS

if TYPE_CHECKING:
    from amp_migrate.model.dataflow.reaching import Reaching

_PLAIN_BASES = frozenset(("torch.nn.Module", "abc.ABC", *AUTOGRAD_FUNCTIONS))


_DEEPEST = 5
"""Dots in the attribute of an object that is followed through assignments."""


class BodyEntry:
    """Answers for the beginning of bodies, by asking `Reaching` about other places."""

    def __init__(self, reaching: Reaching) -> None:
        self.reaching = reaching
        self.module = reaching.module
        self.graph = reaching.graph
        self.uses = TopLevelUses(reaching.module)
        self._objects = FollowedOnce(self._circle)

    def of(self, scope: Scope, key: str) -> Reach:
        """What `key` holds where the body of `scope` begins."""
        head, _, rest = key.partition(".")
        if (
            rest
            and head == "self"
            and scope.owner is not None
            and scope.self_name is not None
        ):
            return self._attribute(scope, rest)
        if isinstance(scope.node, ast.ClassDef):
            if head not in scope.bindings:
                return self.reaching.at(scope.node, key)  # it runs there
        elif head in scope.bindings and head not in scope.outer:
            return self._local(scope, head, rest)
        return self._outer(scope, key)

    # -- parameters

    def _local(self, scope: Scope, head: str, rest: str) -> Reach:
        """An attribute of a parameter: what the callers hand over has it, or not."""
        own = [b for b in scope.bindings[head] if b.how == "parameter"]
        if not own or not rest:
            return self._answer(own, bool(own), bool(own))
        if not isinstance(scope.node, FUNCTIONS):
            return self._answer((), False, False)
        sites = self.sites(scope.node)
        found = [
            self._given(call, where, scope, head, rest, bound)
            for call, where, bound in sites
        ]
        return self._joined(found, bool(sites) and self.is_followed(scope.node))

    def _given(
        self,
        call: ast.Call,
        where: Scope,
        scope: Scope,
        head: str,
        rest: str,
        bound: bool,
    ) -> Reach:
        given = argument(call, scope, head, bound)
        return (
            self.of_value(given, rest)
            if given is not None
            else self._answer((), False, False)
        )

    def sites(self, function: Function) -> list[tuple[ast.Call, Scope, bool]]:
        """The calls that run a function, and whether `self` is given by their receivers."""
        owner = self.module.scopes[function].owner
        if function.name == "__init__" and owner is not None:
            assert isinstance(owner.node, ast.ClassDef)
            return self.graph.constructors.of(function, owner.node)
        return [
            (site.call, site.scope, site.bound)
            for site in self.graph.runs(function)
        ]

    def escapes(self, function: Function) -> bool:
        """Whether a function may be called by code out of sight."""
        return function.name != "__init__" and self.uses.escapes(
            function, self.graph
        )

    def is_followed(self, function: Function) -> bool:
        """Whether `sites` are all of its calls, as far as files in sight go."""
        return not self.escapes(function) or self.graph.is_followed(function)

    def of_value(self, expr: ast.expr, rest: str) -> Reach:
        """The attribute `rest` of what an expression makes."""
        dotted = dotted_name(expr)
        if dotted is not None:
            if (
                rest.count(".") > _DEEPEST
            ):  # `model = model.module` in a loop has no end
                return self._answer((), False, False)
            return self.reaching.at(expr, f"{dotted}.{rest}")
        if not isinstance(expr, ast.Call):
            return self._answer((), False, False)
        if (
            rest in ("type", "index")
            and self.module.canonical(expr.func) == "torch.device"
        ):
            return self._answer((), True, False)
        scope = self.reaching.scope_at(expr)
        given = given_by_name(self.graph, expr, scope, rest)
        if given is not None:
            return self._answer((given,), True, True)
        cls = self.graph.class_named(expr.func, scope)
        if cls is not None:
            return self.of_instance(cls, rest)
        if declares(self.module, expr, rest):
            return self._answer((), True, False)
        function = self.graph.function_at(expr.func, scope)
        if function is None:
            return self._answer((), False, False)
        return self._objects.of(
            (function, rest),
            Open.frame,
            lambda: self._of_returned(function, rest),
        )

    def _of_returned(self, function: Function, rest: str) -> Reach:
        """The attribute `rest` of what a function gives back, whoever calls it."""
        values = returned(function)
        return self._joined(
            [self.of_value(value, rest) for value in values], bool(values)
        )

    def of_object(
        self, binding: Binding, holder: str, scope: Scope, rest: str
    ) -> Reach:
        """The attribute `rest` of the object that `binding` has given to `holder` in `scope`."""
        if binding.how == "import":
            linked = self._elsewhere(f"{holder}.{rest}", scope)
            return linked if linked.certain else self._near(holder, scope, rest)
        if binding.how == "def" and isinstance(binding.statement, ast.ClassDef):
            return self.of_instance(binding.statement, rest)
        if (
            binding.value is None
            or binding.index is not None
            or binding.how != "assign"
        ):
            return self._answer((), False, False)
        value = binding.value
        return self._objects.of(
            (binding, rest), Open.frame, lambda: self.of_value(value, rest)
        )

    def _circle(self) -> Reach:
        """Nothing new: `a, b = b, a` over the turns of a loop."""
        self.reaching.entries.cut()
        return self._answer((), False, False)

    # -- attributes of objects

    def _attribute(self, scope: Scope, rest: str) -> Reach:
        """`self.x` where a method begins: what the constructor and its other callers have set."""
        assert scope.owner is not None
        assert isinstance(scope.node, FUNCTIONS)
        cls = scope.owner.node
        assert isinstance(cls, ast.ClassDef)
        name, _, deeper = rest.partition(".")
        if deeper:
            return self._deeper(scope, name, deeper)
        if scope.node.name in ("__init__", "__new__"):
            return self._before_constructor(cls, name)
        lineage, heirs = self.graph.lineage(cls), self.graph.heirs(cls)
        made = [self.of_instance(heir, name) for heir in heirs]
        certain = self._set_before(scope.node, name, made)
        family = dict.fromkeys((*lineage, *heirs))
        bindings = [b for owner in family for b in self._bindings(owner, name)]
        known = bool(bindings) or all(one.complete for one in made)
        return self._answer(bindings, certain, known)

    def _deeper(self, scope: Scope, name: str, deeper: str) -> Reach:
        """`self.x.y`, by the objects that `self.x` holds."""
        held = self.reaching.on_entry(scope, f"self.{name}")
        if held is ASSUMED:  # which does not tell what it holds
            self.reaching.entries.cut()
        found = [
            self.of_object(one, f"self.{name}", scope, deeper)
            for one in held.bindings
        ]
        return self._joined(found, held.certain and bool(found))

    def _before_constructor(self, cls: ast.ClassDef, name: str) -> Reach:
        """Where a constructor begins, only the classes themselves have attributes."""
        bodies = [
            self.module.scopes[owner].bindings
            for owner in self.graph.lineage(cls)
        ]
        own = [one for names in bodies for one in names.get(name, ())]
        return self._answer(own, self.in_class(cls, name), False)

    def _set_before(
        self, method: Function, name: str, made: list[Reach]
    ) -> bool:
        """Whether an attribute is set whenever a method is called; `made`: by the constructors."""
        inner, is_all = self.reaching.calls.own_sites(method)
        sure = all(
            self.reaching.at(s.call, f"{s.scope.self_name}.{name}").certain
            for s in inner
        )
        only_own = is_all and not self.escapes(method)
        return sure and (only_own or all(one.certain for one in made))

    def of_instance(self, cls: ast.ClassDef, rest: str) -> Reach:
        """An attribute of an object that was just made."""
        name, _, deeper = rest.partition(".")
        bindings = [
            b
            for owner in self.graph.lineage(cls)
            for b in self._bindings(owner, name)
        ]
        if deeper:
            scope = self.module.scopes[cls]
            found = [
                self.of_object(b, f"self.{name}", scope, deeper)
                for b in bindings
            ]
            return self._joined(found, bool(found))
        inits = self.reaching.calls.inherited(cls, "__init__", itself=True)
        left = [m.reaching.left_at_exit(m.scope, f"self.{name}") for m in inits]
        sure = any(
            one.certain and (one.proved or not one.entry) for one in left
        )
        known = all(
            self._is_known(base, owner) for owner, base in self._bases(cls)
        )
        certain = sure or self.in_class(cls, name)
        return self._answer(bindings, certain, known or bool(bindings))

    def _bindings(self, cls: ast.ClassDef, name: str) -> list[Binding]:
        held = self.module.scopes[cls].bindings
        return [*held.get(f"self.{name}", ()), *held.get(name, ())]

    def _bases(self, cls: ast.ClassDef) -> list[tuple[ast.ClassDef, ast.expr]]:
        return [
            (owner, base)
            for owner in self.graph.lineage(cls)
            for base in owner.bases
        ]

    def _is_known(self, base: ast.expr, owner: ast.ClassDef) -> bool:
        scope = self.module.scopes[owner].parent or self.module.root
        named = self.module.canonical(base)
        return (
            self.graph.class_named(base, scope) is not None
            or named in _PLAIN_BASES
        )

    def in_class(self, cls: ast.ClassDef, name: str) -> bool:
        """Whether the class, or one that it derives from, has the attribute itself."""
        return any(
            name in home.module.scopes[owner].bindings or is_field(owner, name)
            for home, owner in ancestry(self.reaching, cls)
        )

    # -- enclosing scopes

    def _outer(self, scope: Scope, key: str) -> Reach:
        """A name of an enclosing function, of the module, or of Python itself."""
        head, _, rest = key.partition(".")
        home = self._home(scope, head)
        if home is None:
            linked = self._elsewhere(key, scope)
            builtin = hasattr(builtins, head) and not rest
            return (
                linked if linked.certain else self._answer((), builtin, builtin)
            )
        if home.parent is None:
            return self._global(home, scope, key)
        inner = scope
        while inner.parent is not home and inner.parent is not None:
            inner = inner.parent
        made = self.reaching.at(self.module.statement_of(inner.node), key)
        certain = made.certain or self._bound_at_calls(inner, key)
        return self._answer(
            self._held(home, key) or made.bindings, certain, not rest
        )

    def _home(self, scope: Scope, head: str) -> Scope | None:
        here = scope.parent if isinstance(scope.node, ast.ClassDef) else scope
        if here is None or here.parent is None:
            return None
        found = here.lookup(head)
        return found if found is not scope else (here.parent.lookup(head))

    def _held(self, home: Scope, key: str) -> list[Binding]:
        bindings = home.bindings.get(key, [])
        return [
            b
            for b in bindings
            if not isinstance(b.statement, ast.comprehension)
        ]

    def _bound_at_calls(self, inner: Scope, key: str) -> bool:
        """Whether a nested function is called only where the name is bound."""
        if not isinstance(inner.node, FUNCTIONS) or self.escapes(inner.node):
            return False
        sites = self.graph.sites(inner.node)
        return bool(sites) and all(
            self.reaching.at(s.call, key).certain for s in sites
        )

    def _global(self, home: Scope, scope: Scope, key: str) -> Reach:
        """A global, as a function sees it whenever it runs."""
        final = self.reaching.at_exit(home, key)
        starts = self.uses.starts(scope)
        top = self.uses.definition_around(scope)
        counts = final.certain or self.uses.runs_whole(scope, self.graph)
        certain = counts and all(
            self.reaching.at(node, key).certain for node in starts
        )
        if (
            not certain
            and top is not None
            and key not in self.reaching.flow(home).changes.deleted
        ):
            certain = self.reaching.at(
                top, key
            ).certain  # bound where the function is made
        bindings = dict.fromkeys((*self._held(home, key), *final.bindings))
        return self._answer(bindings, certain, final.complete)

    def _elsewhere(self, key: str, scope: Scope) -> Reach:
        """A variable of another file of the program."""
        origin = self.module.elsewhere(key, scope)
        if origin is None:
            return self._answer((), False, False)
        home, name = origin
        final = self.reaching.at_exit(home, name)
        return self._answer(
            self._held(home, name), final.certain, final.complete
        )

    def _near(self, holder: str, scope: Scope, rest: str) -> Reach:
        """The attribute of an object that a file which is no part of the program makes."""
        found = self.reaching.imported.variable_named(holder, scope)
        if found is None or "." in rest:
            return self._answer((), False, False)
        home, (only, *others) = found[0].reaching, found[1]
        value = only.value if only.how == "assign" else None
        if others or value is None or only.index is not None:
            return self._answer((), False, False)
        return home.entry.of_value(value, rest)

    # -- answers

    def _joined(self, found: list[Reach], known: bool) -> Reach:
        """Any of several; `known` tells whether these are all."""
        bindings = [b for one in found for b in one.bindings]
        certain = known and all(one.certain for one in found)
        return self._answer(
            bindings, certain, known and all(one.complete for one in found)
        )

    def _answer(
        self, bindings: Iterable[Binding], certain: bool, complete: bool
    ) -> Reach:
        return Reach(tuple(bindings), certain, complete)
