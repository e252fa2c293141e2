"""Where the scaler lives and how it gets to the loop: it has the optimizer's lifetime and travels
with it (section 1).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from amp_migrate.model.call_sites import CallSite
from amp_migrate.model.calls import argument
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Binding, Function, Scope
from amp_migrate.planner.amp_switch import SwitchFinder
from amp_migrate.planner.refusal import Refusal, what_was_read
from amp_migrate.planner.scaler_placement.callers import (
    callers_of,
    passes_none,
    refuse_locked,
)
from amp_migrate.planner.scaler_placement.construction import Anchors
from amp_migrate.planner.scaler_placement.epochs import Epochs
from amp_migrate.planner.scaler_placement.homes import Home
from amp_migrate.planner.scaler_placement.later import LaterPlaces
from amp_migrate.planner.scaler_placement.makers import (
    attribute_makers,
    is_none,
    makers,
)
from amp_migrate.planner.scaler_placement.sources import sources_of
from amp_migrate.planner.spelling import Spellings, Switch
from amp_migrate.project.module_graph import Project
from amp_migrate.rewrite.edits import (
    AddArgument,
    AddParameter,
    Edit,
    InsertAfter,
    InsertBefore,
    Template,
)


@dataclass
class Wiring:
    """The scaler's name in every scope that needs it, and the edits that bring it there. Grows
    while loops are planned.
    """

    program: Program
    switches: SwitchFinder
    spellings: Spellings
    name: str
    project: Project = field(default_factory=Project)
    anchors: Anchors = field(init=False)
    epochs: Epochs = field(init=False)
    later: LaterPlaces = field(init=False)
    homes: dict[Home, list[ast.stmt]] = field(default_factory=dict)
    """Where each scaler may be made: the statements that make its optimizers."""
    access: dict[int, list[Home]] = field(default_factory=dict)
    """Which scalers a scope may see, by id of the scope."""
    edits: dict[Edit, None] = field(default_factory=dict)
    threaded: set[int] = field(default_factory=set)
    optional: dict[int, tuple[Function, str]] = field(default_factory=dict)
    """Functions that may be called without a scaler, and why, by id."""
    stepped: set[str] = field(default_factory=set)
    """Last parts of the names of the optimizers that migrated loops step."""

    def __post_init__(self) -> None:
        self.anchors = Anchors(self.program)
        self.epochs = Epochs(self.program)
        self.later = LaterPlaces(self.anchors, self.switches)

    @property
    def names(self) -> tuple[str, ...]:
        """The scaler, and with `--dtype auto` the switch and the dtype, which travel together."""
        return (
            ("use_amp", "amp_dtype", self.name)
            if self.spellings.settings.dtype == "auto"
            else (self.name,)
        )

    def snapshot(self) -> Wiring:
        """A copy to go back to when a loop turns out to be refused."""
        homes = {home: list(anchors) for home, anchors in self.homes.items()}
        access = {scope: list(found) for scope, found in self.access.items()}
        return replace(
            self,
            homes=homes,
            access=access,
            edits=dict(self.edits),
            threaded=set(self.threaded),
            optional=dict(self.optional),
            stepped=set(self.stepped),
        )

    def restore(self, earlier: Wiring) -> None:
        """Forget what was planned since `earlier`."""
        self.homes, self.access = earlier.homes, earlier.access
        self.edits, self.threaded, self.stepped = (
            earlier.edits,
            earlier.threaded,
            earlier.stepped,
        )
        self.optional = earlier.optional

    def steps_root(self, optimizer: ast.expr, scope: Scope) -> bool:
        """Whether a migrated loop steps an optimizer of this name (parameters may rename it;
        attributes keep theirs).
        """
        try:
            names = sources_of(self.program, optimizer, scope)
        except Refusal:
            return False
        return any(name.rpartition(".")[2] in self.stepped for name in names)

    def provide(
        self, optimizers: list[ast.expr], scope: Scope, loops: list[ast.Call]
    ) -> str:
        """The scaler's name in `scope`, made beside `optimizers`. Raises Refusal where they cannot
        be followed.

        `loops` are the backward calls; a function that holds the whole epoch loop gets a scaler of
        its own.
        """
        if optimizers and all(self._is_made_here(o, scope) for o in optimizers):
            return self._before_call(optimizers, scope)
        roots = {
            name: o
            for o in optimizers
            for name in sources_of(self.program, o, scope)
        }
        self.stepped |= (
            {name.rpartition(".")[2] for name in roots} if loops else set()
        )
        kinds = {
            name: self._where(name, scope, node) for name, node in roots.items()
        }
        homes = {where for where in kinds.values() if where is not None}
        if len(homes) != 1:
            raise Refusal(
                "unsupported-shape",
                optimizers[0],
                "the optimizers of this loop are made in different places",
            )
        where = homes.pop()
        if where.startswith("self."):
            return self._attribute_home(list(roots), scope)
        home = scope.lookup(next(iter(roots)).partition(".")[0])
        assert home is not None
        parameters = [n for n in roots if self._is_parameter(n, home)]
        if parameters:
            return self._from_parameter(
                list(roots), home, scope, optimizers, loops
            )
        return self._beside(list(roots), home, scope, optimizers, loops)

    def _is_made_here(self, optimizer: ast.expr, scope: Scope) -> bool:
        """`train(model, torch.optim.Adam(...))`: made in the call that is given it."""
        made = self.program.values.of(optimizer, scope)
        return isinstance(optimizer, ast.Call) and made.origin is optimizer

    def _before_call(self, optimizers: list[ast.expr], scope: Scope) -> str:
        statements = [self.program.module.statement_of(o) for o in optimizers]
        self._make(Home(scope, top=True), statements[:1], scope)
        return self.name

    def _where(self, name: str, scope: Scope, node: ast.expr) -> str | None:
        head, _, rest = name.partition(".")
        here: Scope | None = scope
        while here is not None:
            if here.self_name == head and rest:
                return "self." + here.qualname.rpartition(".")[0]
            here = here.parent
        home = scope.lookup(head)
        if home is None:
            raise Refusal(
                "optimizer-not-in-sight",
                node,
                f"nothing in {what_was_read(self.program)} defines `{head}`: name the files that "
                "it comes from too",
            )
        return home.qualname

    def _is_parameter(self, name: str, home: Scope) -> bool:
        return home.bindings[name.partition(".")[0]][0].how == "parameter"

    # -- a local of the scope, of an enclosing function, or of the module

    def _beside(
        self,
        names: list[str],
        home: Scope,
        scope: Scope,
        optimizers: list[ast.expr],
        loops: list[ast.Call],
    ) -> str:
        bindings = [
            b for n in names for b in makers(self.program, n, home, optimizers)
        ]
        if self.epochs.called_per_epoch(home):
            return self._above_function(home, scope, optimizers)
        self._make(
            Home(home), self.anchors.of(bindings, home, scope, loops), scope
        )
        return self.name

    def _above_function(
        self, home: Scope, scope: Scope, optimizers: list[ast.expr]
    ) -> str:
        """The scaler outlives the calls: a global made before the function, or a refusal."""
        if home.parent is not home.root or not isinstance(home.node, FUNCTIONS):
            raise Refusal(
                "unsupported-shape",
                optimizers[0],
                "the optimizer is built anew for every call; build it once, beside the model",
            )
        self._make(Home(home.root, top=True), [home.node], scope)
        return self.name

    # -- an attribute of the object

    def _attribute_home(self, names: list[str], scope: Scope) -> str:
        """`self.scaler` right after `self.optimizer`, whatever method makes it."""
        method: Scope | None = scope
        while method is not None and method.owner is None:
            method = method.parent
        cls = self.program.graph.class_around(scope)
        assert method is not None
        assert cls is not None
        made = [
            attribute_makers(self.program, self.project, name, cls, scope)
            for name in names
        ]
        by_method: dict[int, list[Binding]] = {}
        for binding in self.anchors.lasting(
            [b for bindings in made for b in bindings]
        ):
            by_method.setdefault(
                id(self.program.module.scope_of(binding.statement)), []
            ).append(binding)
        for bindings in by_method.values():
            where = self.program.module.scope_of(bindings[0].statement)
            self._make(
                Home(where, where.self_name or "self"),
                self.anchors.of(bindings, where, scope, []),
                scope,
            )
        return f"{method.self_name}.{self.name}"

    # -- a parameter

    def _from_parameter(
        self,
        names: list[str],
        home: Scope,
        scope: Scope,
        optimizers: list[ast.expr],
        loops: list[ast.Call],
    ) -> str:
        function = home.node
        if not isinstance(function, FUNCTIONS):
            raise Refusal(
                "optimizer-not-in-sight",
                optimizers[0],
                "the optimizer is a lambda's parameter",
            )
        if id(function) in self.threaded:
            return self.name
        if Home(home, top=True) in self.homes:
            return self.name  # made at its top already, for a loop of it
        if self.epochs.holds_everything(function, scope, loops):
            top = self.epochs.top_of(function, home)
            own = self.switches.own
            if own is None or own.found(home, top) is not None:
                self._make(Home(home, top=True), [top], scope)
                return self.name
        self.thread(function, names)
        return self.name

    def thread(self, function: Function, names: list[str]) -> None:
        """Give `function` a parameter for the scaler and pass it at every call, making it where
        the optimizer is made.
        """
        if id(function) in self.threaded:
            return
        found = callers_of(self.program, self.project, function, names)
        refuse_locked(
            self.project, self.program.scope(function).module, function
        )
        self.threaded.add(id(function))
        inner = self.program.scope(function)
        without = any(passes_none(site, inner, names) for site in found.sites)
        why = (
            f"`{function.name}` is called without an optimizer, too"
            if without
            else None
        )
        if (found.unknown or why) is not None:
            self.make_optional(function, found.unknown or why or "")
        for name in self.names:
            default = "None" if id(function) in self.optional else None
            self.edits[
                AddParameter(self.program.module.span(function), name, default)
            ] = None
        before = len(self.edits)
        for site in sorted(
            found.sites, key=lambda s: self._given_none(s, inner, names)
        ):
            self._pass_at(site, function, names)
        if found.handed and len(self.edits) == before:
            raise Refusal(
                "callers-unknown",
                function,
                f"{found.unknown}, and no call in sight could pass it the scaler: call it by its "
                "name, or give it the scaler where it is bound (functools.partial)",
            )
        for peer in found.peers:
            self.thread(peer, [])

    def make_optional(self, function: Function, why: str) -> None:
        """Callers that nobody sees pass no scaler: for them AMP is off."""
        if len(self.names) > 1:
            raise Refusal(
                "callers-unknown",
                function,
                f"{why}: its callers cannot all be given the switch",
            )
        inner = self.program.scope(function)
        made = self.spellings.of(inner).scaler('"cuda"', "False")
        documented = ast.get_docstring(function, clean=False) is not None
        top = function.body[1 if documented and len(function.body) > 1 else 0]
        lines = f"if {self.name} is None:\n    {self.name} = {made}"
        self.edits[
            InsertBefore(
                self.program.module.span(top), (Template(lines),), above=True
            )
        ] = None
        self.optional[id(function)] = (function, why)

    def _pass_at(
        self, site: CallSite, function: Function, names: list[str]
    ) -> None:
        inner = self.program.scope(function)
        self.epochs.note(site.call, function)
        given = [
            argument(site.call, inner, n.partition(".")[0], site.bound)
            for n in names
        ]
        try:
            if names and any(g is None for g in given):
                raise Refusal(
                    "callers-unknown",
                    site.call,
                    f"the call of `{function.name}` does not show which optimizer it passes",
                )
            value = self._value_at(
                site, [g for g in given if g is not None], inner, names
            )
        except Refusal as refusal:
            if id(function) in self.optional and not refusal.files:
                return  # this caller stays in float32
            raise
        self.access.setdefault(id(inner), []).extend(
            self.access.get(id(site.scope), ())
        )
        holder = value.rpartition(".")[0]
        for name in self.names:
            given_value = f"{holder}.{name}" if holder else name
            self.edits[
                AddArgument(
                    self.program.module.span(site.call), name, given_value
                )
            ] = None

    def _value_at(
        self,
        site: CallSite,
        given: list[ast.expr],
        inner: Scope,
        names: list[str],
    ) -> str:
        """The scaler to pass at one call: beside the optimizer that is passed; any in sight where
        that is None.
        """
        if names and not self._given_none(site, inner, names):
            return self.provide(given, site.scope, [site.call])
        value = self.visible(site.scope)
        if value is None:
            raise Refusal(
                "callers-unknown",
                site.call,
                "this call passes no optimizer, and no scaler is in sight",
            )
        return value

    def _given_none(
        self, site: CallSite, inner: Scope, names: list[str]
    ) -> bool:
        """A call for evaluation: `run(model, loader, optimizer=None)`."""
        given = [
            argument(site.call, inner, n.partition(".")[0], site.bound)
            for n in names
        ]
        return bool(given) and all(is_none(g) for g in given)

    def own(self, scope: Scope) -> str | None:
        """The scaler's name in a function whose loop got a scaler of its own, at its top."""
        made = any(home.top and home.scope is scope for home in self.homes)
        return self.name if made and scope.is_function else None

    def visible(self, scope: Scope) -> str | None:
        """The scaler's name in `scope` if it can be read there without being passed."""
        for home in [h for h in self.homes if not h.top]:
            if home.attribute and self.program.graph.class_around(
                scope
            ) is self.program.graph.class_around(home.scope):
                method = scope
                while method.owner is None and method.parent is not None:
                    method = method.parent
                return (
                    f"{method.self_name}.{self.name}"
                    if method.self_name
                    else None
                )
            here: Scope | None = scope
            while here is not None and not home.attribute:
                if here is home.scope:
                    return self.name
                here = here.parent
        own = (
            id(scope.node) in self.threaded
            or Home(scope, top=True) in self.homes
        )
        return self.name if own else None

    # -- making it

    def _make(self, home: Home, anchors: list[ast.stmt], scope: Scope) -> None:
        refuse_locked(self.project, home.scope.module, home.scope.node)
        self.homes.setdefault(home, []).extend(anchors)
        for seen in (scope, home.scope):
            if home not in self.access.setdefault(id(seen), []):
                self.access[id(seen)].append(home)

    def constructions(self) -> list[Edit]:
        """The statements that make the scalers."""
        return [
            self._construction(home, anchor)
            for home, anchors in self.homes.items()
            for anchor in self.anchors.lasts(anchors)
        ]

    def _construction(self, home: Home, anchor: ast.stmt) -> Edit:
        anchor, before = self.later.placed(home, anchor)
        switch = self.switches.at(home.scope, anchor, after=not before)
        own = self.switches.own
        option = own.text(home.scope, anchor) if own is not None else None
        name = f"{home.attribute}.{self.name}" if home.attribute else self.name
        lines = self.spellings.of(home.scope).made(name, switch, option)
        statements = tuple(map(Template, lines))
        span = self.program.module.span(anchor)
        above = not isinstance(
            anchor, FUNCTIONS
        )  # a comment stays with its statement
        return (
            InsertBefore(span, statements, above)
            if before
            else InsertAfter(span, statements)
        )

    def switches_for(self, scope: Scope) -> list[Switch]:
        """The switches of the scalers that `scope` may use."""
        places = self.places(scope)
        return [
            self.switches.at(s, anchor, after=not before)
            for s, anchor, before in places
        ]

    def places(self, scope: Scope) -> list[tuple[Scope, ast.stmt, bool]]:
        """Where they are made: the scope, the statement, and whether before it."""
        here: Scope | None = scope
        while here is not None and id(here) not in self.access:
            here = here.parent
        homes = self.access.get(id(here), []) if here is not None else []
        return [
            (home.scope, *self.later.placed(home, anchor))
            for home in homes
            for anchor in self.anchors.lasts(self.homes[home])
        ]
