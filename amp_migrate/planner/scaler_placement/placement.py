"""Where the scaler lives and how it gets to the loop: it has the optimizer's lifetime and travels
with it (section 1).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.scaler_placement.attribute_homes import (
    attribute_homes,
)
from amp_migrate.planner.scaler_placement.callers import (
    Callers,
    callers_of,
    refuse_locked,
)
from amp_migrate.planner.scaler_placement.defaults import (
    given_by_callers,
)
from amp_migrate.planner.scaler_placement.epochs import Epochs
from amp_migrate.planner.scaler_placement.homes import Home
from amp_migrate.planner.scaler_placement.lifetimes import check_lifetimes
from amp_migrate.planner.scaler_placement.makers import attribute_makers, makers
from amp_migrate.planner.scaler_placement.optional import (
    Optional,
    called_without,
    counterparts,
    divided,
    given_at,
    optional,
    passes_none,
    refuse_idle,
)
from amp_migrate.planner.scaler_placement.own_methods import kept_beside
from amp_migrate.planner.scaler_placement.roots import place_of_root
from amp_migrate.planner.scaler_placement.scalers import Scalers
from amp_migrate.planner.scaler_placement.sources import (
    are_made_here,
    held_by,
    key_writes,
    sources_of,
)
from amp_migrate.planner.spelling import Spellings
from amp_migrate.planner.switch.amp_switch import SwitchFinder
from amp_migrate.project.module_graph import Project
from amp_migrate.rewrite.edits import AddArgument, AddParameter, Edit


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
    scalers: Scalers = field(init=False)
    epochs: Epochs = field(init=False)
    edits: dict[Edit, None] = field(default_factory=dict)
    optional: dict[int, Optional] = field(default_factory=dict)
    """Functions that may be called without a scaler, by id."""
    asking: set[int] = field(default_factory=set)
    """Those of them that ask whether they were given one."""
    stepped: set[str] = field(default_factory=set)
    """Last parts of the names of the optimizers that migrated loops step."""

    def __post_init__(self) -> None:
        self.scalers = Scalers(
            self.program,
            self.switches,
            self.spellings,
            self.name,
            self.project,
        )
        self.epochs = Epochs(self.program)

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
        copy = replace(
            self,
            edits=dict(self.edits),
            optional=dict(self.optional),
            asking=set(self.asking),
            stepped=set(self.stepped),
        )
        copy.scalers = self.scalers.copy()
        return copy

    def restore(self, earlier: Wiring) -> None:
        """Forget what was planned since `earlier`."""
        self.scalers, self.edits = earlier.scalers, earlier.edits
        self.optional, self.stepped = earlier.optional, earlier.stepped
        self.asking = earlier.asking

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
        optimizers = held_by(self.program, optimizers, scope)
        if are_made_here(self.program, optimizers, scope):
            return self._before_call(optimizers, scope)
        roots = {
            name: o
            for o in optimizers
            for name in sources_of(self.program, o, scope)
        }
        if loops:
            self.stepped |= {name.rpartition(".")[2] for name in roots}
        homes = {
            place_of_root(self.program, name, scope, node)
            for name, node in roots.items()
        }
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
        if given_by_callers(self.program, self.project, list(roots), home):
            return self._from_parameter(
                list(roots), home, scope, optimizers, loops
            )
        return self._beside(list(roots), home, scope, optimizers, loops)

    def _before_call(self, optimizers: list[ast.expr], scope: Scope) -> str:
        statements = [self.program.module.statement_of(o) for o in optimizers]
        self.scalers.make(Home(scope, top=True), statements[:1], scope)
        return self.name

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
        self.scalers.hold(Home(home), bindings)
        self.scalers.make(
            Home(home),
            self.scalers.anchors.of(bindings, home, scope, loops),
            scope,
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
        self.scalers.make(Home(home.root, top=True), [home.node], scope)
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
        handed = [one for bindings in made for one in bindings]
        check_lifetimes(self.program, self.epochs, cls, handed, scope)
        for home, bindings, places in attribute_homes(
            self.program, self.scalers.anchors, cls, handed, scope
        ):
            self.scalers.hold(home, bindings)
            self.scalers.make(home, places, scope)
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
        if id(function) in self.scalers.threaded:
            return self.name
        if Home(home, top=True) in self.scalers.homes:
            return self.name  # made at its top already, for a loop of it
        written = key_writes(self.program, names, home)
        if written and scope is not home:
            self.scalers.make(Home(home), written, scope)
            return self.name
        if self.epochs.holds_everything(function, scope, loops):
            top = self.epochs.top_of(function, home)
            own = self.switches.own
            if own is None or own.found(home, top) is not None:
                self.scalers.make(Home(home, top=True), [top], scope)
                return self.name
        kept = kept_beside(self, function, names) if home is scope else None
        if kept is not None:
            return kept
        self.thread(function, names)
        if loops:
            called = self.optional.get(id(function))
            refuse_idle(self.program, called, self.edits)
        return self.name

    def thread(
        self, function: Function, names: list[str], *, as_peer: bool = False
    ) -> None:
        """Give `function` a parameter for the scaler and pass it at every call, making it where
        the optimizer is made. A peer may be called without an optimizer.
        """
        if id(function) in self.scalers.threaded:
            return
        inner = self.program.scope(function)
        found = callers_of(self.program, self.project, function, names)
        refuse_locked(self.project, inner.module, function)
        self.scalers.threaded.add(id(function))
        self._may_lack(function, found, names)
        before = len(self.edits)
        self._pass_to(function, found, names, as_peer=as_peer)
        if found.handed and len(self.edits) == before:
            raise Refusal(
                "callers-unknown",
                function,
                f"{found.unknown}, and no call in sight could pass it the scaler: call it by its "
                "name, or give it the scaler where it is bound (functools.partial)",
            )
        for name in self.names:
            default = "None" if id(function) in self.optional else None
            self.edits[
                AddParameter(self.program.module.span(function), name, default)
            ] = None
        for peer in found.peers:
            theirs = counterparts(inner, self.program.scope(peer), names)
            self.thread(peer, theirs, as_peer=True)

    def _pass_to(
        self,
        function: Function,
        found: Callers,
        names: list[str],
        *,
        as_peer: bool,
    ) -> None:
        """The scaler at each call; those that pass no optimizer come last, when all scalers have
        been made, and do without where there is none.
        """
        inner = self.program.scope(function)
        training, idle = divided(self.program, found.sites, inner, names)
        for site in training:
            try:
                self._pass_at(site, function, names)
            except Refusal as refusal:
                if not as_peer or refusal.files:
                    raise
                idle.append(site)
        for site in idle:
            self.epochs.note(site.call, function)
            value = self.scalers.visible_at(site)
            if value is None:
                self._without_optimizer(function, found)
            else:
                self._hand(site, function, value)

    def _may_lack(
        self, function: Function, found: Callers, names: list[str]
    ) -> None:
        """Whether some caller gives the function no scaler: one that nobody sees, or that gives
        no optimizer.
        """
        inner = self.program.scope(function)
        if any(
            passes_none(self.program, site, inner, names)
            for site in found.sites
        ):
            self._without_optimizer(function, found)
        elif found.unknown is not None:
            self.make_optional(function, found.unknown, closed=False)

    def _without_optimizer(self, function: Function, found: Callers) -> None:
        """Some call in sight gives no optimizer."""
        if id(function) not in self.optional:
            why = called_without(function)
            closed = found.unknown is None
            self.make_optional(function, found.unknown or why, closed)

    def make_optional(
        self, function: Function, why: str, closed: bool = True
    ) -> None:
        """Callers that nobody sees pass no scaler: for them AMP is off."""
        if len(self.names) > 1:
            raise Refusal(
                "callers-unknown",
                function,
                f"{why}: its callers cannot all be given the switch",
            )
        found = optional(
            self.program, self.spellings, function, why, closed, self.name
        )
        self.edits[found.prologue] = None
        self.optional[id(function)] = found

    def _pass_at(
        self, site: CallSite, function: Function, names: list[str]
    ) -> None:
        inner = self.program.scope(function)
        self.epochs.note(site.call, function)
        given = given_at(self.program, site, inner, names)
        try:
            if any(g is None for g in given):
                raise Refusal(
                    "callers-unknown",
                    site.call,
                    f"the call of `{function.name}` does not show which optimizer it passes",
                )
            value = self.provide(
                [one for one in given if one is not None],
                site.scope,
                [site.call],
            )
        except Refusal as refusal:
            if id(function) in self.optional and not refusal.files:
                return  # this caller stays in float32
            raise
        self._hand(site, function, value)

    def _hand(self, site: CallSite, function: Function, value: str) -> None:
        inner = self.program.scope(function)
        self.scalers.access.setdefault(id(inner), []).extend(
            self.scalers.access.get(id(site.scope), ())
        )
        holder = value.rpartition(".")[0]
        call = self.program.module.span(site.call)
        for name in self.names:
            given = f"{holder}.{name}" if holder else name
            self.edits[AddArgument(call, name, given)] = None
