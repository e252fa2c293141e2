"""A scaler is read only where its optimizer may be read, and the value of its step by nobody."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.step_values import is_value_used
from amp_migrate.model.syntax.module import FUNCTIONS, Scope, returned
from amp_migrate.model.syntax.queries import calls_in
from amp_migrate.model.values.call_values import is_property
from amp_migrate.model.values.kinds import Kind
from amp_migrate.rewrite.proof.rewritten_file import Unproved
from amp_migrate.rewrite.proof.trained_beside import TrainedBeside, leaves
from amp_migrate.torch_facts.iteration import CHAIN
from amp_migrate.torch_facts.methods import OF_MODULES

_PLAIN = ("list", "tuple", "filter", "dict", "len")


class ScalerReads(TrainedBeside):
    """The scalers of a file, and their steps."""

    def scaler(self, node: ast.Name | ast.Attribute) -> Iterator[Unproved]:
        """A scaler is read only where its optimizer may be read."""
        dotted = dotted_name(node)
        if (
            dotted is None
            or not isinstance(node.ctx, ast.Load)
            or self._has_value(node, dotted)
        ):
            return
        scope = self.program.module.scope_of(node)
        if self._is_of_others(dotted, scope):
            yield self.failure(node, f"nothing sets `{dotted}` there")
            return
        stepped = [c.args[0] for c in scope.calls if self.is_step(c)]
        stepped = stepped or list(self._handed_with(node, scope))
        names = [
            name for expr in stepped if (name := dotted_name(expr)) is not None
        ]
        if len(names) < len(stepped) or any(
            not self.is_bound(node, name) for name in names
        ):
            return
        if dotted.partition(".")[0] in self.introduced.given:
            return
        if not stepped:
            if not (
                self._trains(node, dotted, ())
                or self._is_asked_with(node, dotted, scope)
            ):
                yield self.failure(
                    node,
                    f"`{dotted}` may have no value there: not every call of it trains",
                )
            return
        held = {one for name in names for one in _held_by(name)}
        held.update(one for name in names for one in self._stored(name, scope))
        if any(self._is_made_beside(node, dotted, name) for name in held):
            return
        yield self.failure(node, f"`{dotted}` may have no value there")

    def _is_of_others(self, dotted: str, scope: Scope) -> bool:
        """Whether `self.scaler` stands where there is no such object, or in a class of which none
        in its family sets it, while others do.
        """
        head, _, attribute = dotted.partition(".")
        if not attribute:
            return False
        if scope.lookup(head) is None:
            return True
        cls = self.program.graph.class_around(scope)
        if cls is None or scope.self_name != head:
            return False
        graph, key = self.program.graph, f"self.{attribute}"
        family = {*graph.lineage(cls), *graph.heirs(cls)}
        setters = [
            (scope.node, name)
            for scope in self.program.module.scopes.values()
            for name in scope.bindings
            if name.endswith(f".{attribute}")
        ]
        return bool(setters) and all(
            name == key and node not in family for node, name in setters
        )

    def _stored(self, name: str, scope: Scope) -> Iterator[str]:
        """`self._optimizer`, which a property `self.optimizer` hands out, here or in the heirs."""
        graph, (holder, _, last) = self.program.graph, name.rpartition(".")
        cls = graph.class_around(scope)
        if cls is None or holder != scope.self_name:
            return
        methods = {graph.method(heir, last) for heir in graph.heirs(cls)}
        for method in methods - {None}:
            if method is not None and is_property(method):
                for value in returned(method):
                    yield from [d] if (d := dotted_name(value)) else []

    def _handed_with(self, node: ast.expr, scope: Scope) -> Iterator[ast.expr]:
        """The optimizers that the same call gets: `update(self.optimizer, loss, scaler=...)`, and
        those of such calls that run whenever a region does.
        """
        around = set(self.conditions(node))
        for call in scope.calls:
            given = [*call.args, *(one.value for one in call.keywords)]
            if any(map(self.forms.is_scaler, given)):
                runs = around.issuperset(self.conditions(call))
                if runs and not leaves(scope, node, call):
                    yield from (one for one in given if self._steps(one, scope))

    def _steps(self, expr: ast.expr, scope: Scope) -> bool:
        return self.program.values.kind(expr, scope) is Kind.OPTIMIZER

    def _trains(
        self, node: ast.expr, dotted: str, seen: tuple[ast.AST, ...]
    ) -> bool:
        """Whether what runs with a read of `self.scaler`, in its method or in those that call it,
        trains or has set it: an evaluation may share the method, and have no scaler.
        """
        scope = self.program.module.scope_of(node)
        method = scope.node
        if (
            not isinstance(method, FUNCTIONS)
            or scope.owner is None
            or not dotted.startswith(f"{scope.self_name}.")
            or self._has_value(node, dotted)
            or self.trains_beside(node, scope)
        ):
            return True
        sites = self.program.graph.sites(method)
        return (
            bool(sites)
            and method not in seen
            and method.name.startswith(
                "_"
            )  # others may be called from anywhere
            and all(
                self._trains(site.call, dotted, (*seen, method))
                for site in sites
            )
        )

    def _is_asked_with(self, node: ast.expr, dotted: str, scope: Scope) -> bool:
        """Whether what the scaler is set beside is asked for something whenever the scaler is read:
        `torch.save({"optimizer": self.optimizer.state_dict(), ...})` already fails where nothing
        trains.
        """
        before = self._sure_before(node)
        for call in scope.calls:
            func = call.func
            if not isinstance(func, ast.Attribute):
                continue
            owner = dotted_name(func.value)
            if (
                owner is not None
                and not self.forms.is_scaler(func.value)
                and self.is_sure(call, before)
                and self._is_made_beside(node, dotted, owner, is_asked=True)
            ):
                return True
        return False

    def _sure_before(self, node: ast.expr) -> set[ast.AST]:
        """The statement of a node, and what has run to its end in its function by then."""
        module = self.program.module
        found: set[ast.AST] = set()
        for one in (node, *module.ancestors(node)):
            if isinstance(one, FUNCTIONS):
                break
            if isinstance(one, ast.stmt):
                block = module.block_of(one)
                found.update(block[: block.index(one)])
                found.add(one)
        return found

    def _has_value(self, scaler: ast.expr, dotted: str) -> bool:
        """Whether a scaler has a value by what leads to a read of it; those that follow were added,
        and prove nothing.
        """
        return self.program.reaching.at(scaler, dotted).certain

    def _is_made_beside(
        self,
        node: ast.expr,
        dotted: str,
        optimizer: str,
        is_asked: bool = False,
    ) -> bool:
        """Whether the scaler is set behind each statement that sets an optimizer, or was before, so
        that where the one has a value, the other has.
        """
        homes = self._homes(optimizer, self.program.module.scope_of(node))
        made = [b for home in homes for b in home.bindings.get(optimizer, ())]
        if is_asked or self._is_no_none(node, optimizer):
            made = [b for b in made if not _is_none(b.value)]
        beside = [b for home in homes for b in home.bindings.get(dotted, ())]
        set_here = [one.statement for one in beside]
        theirs = [binding.statement for binding in made]
        return bool(made) and all(
            self._is_set_at(one, dotted)
            or any(self._is_next(scaler, one, theirs) for scaler in set_here)
            for one in theirs
        )

    def _is_set_at(self, statement: ast.AST | None, dotted: str) -> bool:
        """Whether the scaler has a value already where an optimizer is made anew."""
        return (
            isinstance(statement, ast.Assign)
            and self.program.reaching.at(statement, dotted).certain
        )

    def _is_no_none(self, node: ast.expr, optimizer: str) -> bool:
        """Whether an optimizer that is None would end the program here or further on in this run,
        where its gradients are cleared, or it is stepped.
        """
        if self.is_bound(node, f"{optimizer}.zero_grad"):
            return True
        around = set(self.conditions(node))
        return any(
            self.is_step(call)
            and dotted_name(call.args[0]) == optimizer
            and around.issuperset(self.conditions(call))
            for call in self.program.module.scope_of(node).calls
        )

    def _homes(self, optimizer: str, scope: Scope) -> list[Scope]:
        """The scope of a variable; of an attribute, the classes that may set it, where nothing else
        does.
        """
        head, _, attribute = optimizer.partition(".")
        cls, module = (
            self.program.graph.class_around(scope),
            self.program.module,
        )
        if not attribute:
            home = scope.lookup(head)
            return [home] if home is not None else []
        if cls is None or head != "self" or scope.self_name != head:
            return []
        if any(
            key.endswith(f".{attribute}") and key != optimizer
            for one in module.scopes.values()
            for key in one.bindings
        ):
            return []
        graph = self.program.graph
        family = dict.fromkeys((*graph.lineage(cls), *graph.heirs(cls)))
        return [module.scopes[one] for one in family]

    def _is_next(
        self,
        later: ast.AST | None,
        earlier: ast.AST | None,
        between: Sequence[ast.AST | None],
    ) -> bool:
        """Whether an assignment follows another, which may end a branch above it, with nothing but
        assignments of the same kind `between` them, and of what torch makes.
        """
        if not isinstance(earlier, (ast.Assign, ast.If)):
            return False
        block = self.program.module.block_of(earlier)
        for one in block[block.index(earlier) + 1 :]:
            if one is later:
                return True
            if not (_only_sets(one, between) or self._is_of_torch(one)):
                return False
        above = self.program.module.parents.get(earlier)
        return isinstance(above, ast.If) and self._is_next(
            later, above, between
        )

    def _is_of_torch(self, statement: ast.stmt) -> bool:
        """`scheduler = StepLR(optimizer, 30)`, `other = Adam(net.parameters())`: it runs nothing
        of the program, and where it fails, so does the program, for nothing catches it.
        """
        value = statement.value if isinstance(statement, ast.Assign) else None
        above = self.program.module.ancestors(statement)
        return (
            isinstance(value, ast.Call)
            and all(map(self._is_of_library, calls_in(statement)))
            and not any(isinstance(one, ast.Try) for one in above)
        )

    def _is_of_library(self, call: ast.Call) -> bool:
        """Whether torch or Python answers a call, also by a method that no class in sight has."""
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in OF_MODULES:
            return not self.program.graph.methods_named(func.attr)
        if isinstance(func, ast.Name) and func.id in _PLAIN:
            return self.program.module.scope_of(call).lookup(func.id) is None
        canonical = self.program.canonical(func) or ""
        return canonical.startswith("torch.") or canonical in CHAIN

    def unscaled(self) -> Iterator[Unproved]:
        """Of `[o.step() for o in optimizers]`, `o` has no value outside."""
        for node in self.file.nodes:
            for given in self.forms.method(node, "unscale_", 1) or ():
                if self._is_of_comprehension(given):
                    yield self.failure(given, "it may have no value there")

    def _is_of_comprehension(self, optimizer: ast.expr) -> bool:
        """Whether nothing but comprehensions sets a name, and none of them is around it."""
        name = (dotted_name(optimizer) or "").partition(".")[0]
        home = self.program.module.scope_of(optimizer).lookup(name)
        set_by = home.bindings[name] if home is not None else []
        within = {*self.program.module.ancestors(optimizer)}
        return bool(set_by) and all(
            isinstance(one.statement, ast.comprehension)
            and self.program.module.parents[one.statement] not in within
            for one in set_by
        )

    def step_values(self) -> Iterator[Unproved]:
        """`GradScaler.step` gives None where it skips a step, whatever the optimizer's would."""
        for node in self.file.nodes:
            if isinstance(node, ast.Call) and self.is_step(node):
                scope = self.program.module.scope_of(node)
                if is_value_used(self.program, node, node.args[0], scope):
                    yield self.failure(
                        node, "its value is used, and a skipped step has none"
                    )


def _held_by(name: str) -> Iterator[str]:
    """`self.agent.optimizer` and `self.agent`: where an object that holds an optimizer is set, its
    scaler may be.
    """
    parts = name.split(".")
    first = min(2, len(parts))
    return (".".join(parts[:n]) for n in range(first, len(parts) + 1))


def _only_sets(
    statement: ast.stmt, assignments: Sequence[ast.AST | None]
) -> bool:
    """Whether a statement is one of some assignments, or chooses between them."""
    if isinstance(statement, ast.If):
        inner = (*statement.body, *statement.orelse)
        return all(_only_sets(one, assignments) for one in inner)
    return statement in assignments


def _is_none(value: ast.expr | None) -> bool:
    """None, whose gradients nobody clears."""
    return isinstance(value, ast.Constant) and value.value is None
