"""The scalers of a program: where each is made, and who sees it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from amp_migrate.model.calls.call_sites import CallSite
from amp_migrate.model.dataflow.earlier_statements import has_run
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Binding, Scope
from amp_migrate.planner.scaler_placement.callers import refuse_locked
from amp_migrate.planner.scaler_placement.construction import Anchors
from amp_migrate.planner.scaler_placement.homes import Home
from amp_migrate.planner.scaler_placement.inherited import without_inherited
from amp_migrate.planner.scaler_placement.later import LaterPlaces
from amp_migrate.planner.scaler_placement.marked import (
    names_of,
    without_marked,
)
from amp_migrate.planner.spelling import Spellings, Switch
from amp_migrate.planner.switch.amp_switch import SwitchFinder
from amp_migrate.project.module_graph import Project
from amp_migrate.rewrite.edits import (
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceStatement,
    Template,
)


@dataclass
class Scalers:
    """Grows while loops are planned."""

    program: Program
    switches: SwitchFinder
    spellings: Spellings
    name: str
    project: Project
    anchors: Anchors = field(init=False)
    later: LaterPlaces = field(init=False)
    homes: dict[Home, list[ast.stmt]] = field(default_factory=dict)
    """Where each scaler may be made: the statements that make its optimizers."""
    access: dict[int, list[Home]] = field(default_factory=dict)
    """Which scalers a scope may see, by id of the scope."""
    threaded: set[int] = field(default_factory=set)
    """Functions that are given one, by id."""
    held: dict[Home, tuple[str, ...]] = field(default_factory=dict)
    """The variables of the optimizers beside which each is made."""
    asks_order: bool = False
    """Whether AMP is off for optimizers that are of second order."""

    def __post_init__(self) -> None:
        self.anchors = Anchors(self.program)
        self.later = LaterPlaces(self.anchors, self.switches)

    def copy(self) -> Scalers:
        """As they are now."""
        homes = {home: list(anchors) for home, anchors in self.homes.items()}
        access = {scope: list(found) for scope, found in self.access.items()}
        threaded = set(self.threaded)
        return replace(
            self,
            homes=homes,
            access=access,
            threaded=threaded,
            held=dict(self.held),
        )

    def make(self, home: Home, anchors: list[ast.stmt], scope: Scope) -> None:
        """Make one at `home`, beside the statements `anchors`, for `scope`."""
        refuse_locked(self.project, home.scope.module, home.scope.node)
        self.homes.setdefault(home, []).extend(anchors)
        for seen in (scope, home.scope):
            if home not in self.access.setdefault(id(seen), []):
                self.access[id(seen)].append(home)

    def hold(self, home: Home, bindings: list[Binding]) -> None:
        """Remember which optimizers one is made beside."""
        names = (*self.held.get(home, ()), *names_of(self.program, bindings))
        self.held[home] = tuple(dict.fromkeys(names))

    def off_for_marked(self, scope: Scope) -> bool:
        """Switch AMP off for optimizers of second order, where all scalers that `scope` may use
        are made beside one optimizer each; says whether they are.
        """
        names = [self.held.get(home, ()) for home in self._homes_of(scope)]
        self.asks_order = bool(names) and all(
            len(one) == 1 and one[0] for one in names
        )
        return self.asks_order

    def constructions(self) -> list[Edit]:
        """The statements that make the scalers, and what declares them global where they are made
        in a function.
        """
        places = [
            (home, anchor)
            for home in without_inherited(self.program, self.homes)
            for anchor in self.anchors.lasts(self.homes[home])
        ]
        declared = (edit for one in places for edit in self._declared(*one))
        return [*declared, *(self._construction(*one) for one in places)]

    def _declared(self, home: Home, anchor: ast.stmt) -> Iterator[Edit]:
        """`global model, optimizer` of a function that makes the optimizer of a module."""
        module = self.program.module
        function = module.scope_of(anchor)
        if home.attribute or home.scope.is_function or not function.is_function:
            return
        of_switch = self.spellings.settings.dtype == "auto"
        names = ["use_amp", "amp_dtype"] if of_switch else []
        for statement in function.body:
            if isinstance(statement, ast.Global):
                text = ", ".join([module.source(statement), *names, self.name])
                span = module.span(statement)
                yield ReplaceStatement(span, (Template(text),))
                return

    def _construction(self, home: Home, anchor: ast.stmt) -> Edit:
        anchor, before = self.later.placed(home, anchor)
        switch = self._switch(home, anchor, before)
        own = self.switches.own
        option = own.text(home.scope, anchor) if own is not None else None
        name = f"{home.attribute}.{self.name}" if home.attribute else self.name
        lines = self.spellings.of(home.scope).made(name, switch, option)
        statements = tuple(map(Template, lines))
        span = self.program.module.span(anchor)
        return (
            InsertBefore(span, statements, self._stands_above(anchor))
            if before
            else InsertAfter(span, statements)
        )

    def _stands_above(self, anchor: ast.stmt) -> bool:
        """Whether a statement before `anchor` belongs to what precedes it, above comments and empty
        lines; not to the body of a function that ends there.
        """
        block = self.program.module.block_of(anchor)
        place = next(i for i, one in enumerate(block) if one is anchor)
        return not isinstance(anchor, FUNCTIONS) or not isinstance(
            block[max(place - 1, 0)], (*FUNCTIONS, ast.ClassDef)
        )

    def switches_for(self, scope: Scope) -> list[Switch]:
        """The switches of the scalers that `scope` may use."""
        seen = self._seen_from(scope)
        homes = self._homes_of(scope) or ([seen] if seen is not None else [])
        return [
            self._switch(home, *self.later.placed(home, anchor))
            for home in homes
            for anchor in self.anchors.lasts(self.homes[home])
        ]

    def places(self, scope: Scope) -> list[tuple[Scope, ast.stmt, bool]]:
        """Where they are made: the scope, the statement, and whether before it."""
        return [
            (home.scope, *self.later.placed(home, anchor))
            for home in self._homes_of(scope)
            for anchor in self.anchors.lasts(self.homes[home])
        ]

    def is_given(self, scope: Scope) -> bool:
        """Whether a scope, or one around it, is given a scaler or makes it: others only see one."""
        here: Scope | None = scope
        while here is not None and id(here.node) not in self.threaded:
            here = here.parent
        return here is not None or bool(self._homes_of(scope))

    def _homes_of(self, scope: Scope) -> list[Home]:
        here: Scope | None = scope
        while here is not None and id(here) not in self.access:
            here = here.parent
        return self.access.get(id(here), []) if here is not None else []

    def _switch(self, home: Home, place: ast.stmt, before: bool) -> Switch:
        found = self.switches.at(home.scope, place, after=not before)
        names = [name for name in self.held.get(home, ()) if name]
        asks = self.asks_order and names
        return without_marked(found, names) if asks else found

    def own(self, scope: Scope) -> str | None:
        """The scaler's name in a function whose loop got a scaler of its own, at its top."""
        made = any(home.top and home.scope is scope for home in self.homes)
        return self.name if made and scope.is_function else None

    def holder_made_in(self, scope: Scope) -> str | None:
        """`self` of a method that makes the scaler of its object."""
        return next(
            (one.attribute for one in self.homes if one.scope is scope), None
        )

    def visible(self, scope: Scope) -> str | None:
        """The scaler's name in `scope` if it can be read there without being passed."""
        home = self._seen_from(scope)
        if home is not None and home.attribute:
            method = scope
            while method.owner is None and method.parent is not None:
                method = method.parent
            owner = method.self_name
            return f"{owner}.{self.name}" if owner else None
        own = (
            id(scope.node) in self.threaded
            or Home(scope, top=True) in self.homes
        )
        return self.name if own or home is not None else None

    def _seen_from(self, scope: Scope) -> Home | None:
        """Where a scaler is made that a scope reads as an attribute, or as an outer variable."""
        cls = self.program.graph.class_around(scope)
        family = () if cls is None else self.program.graph.lineage(cls)
        for home in [h for h in self.homes if not h.top]:
            if home.attribute:
                owner = self.program.graph.class_around(home.scope)
                if owner is cls or owner in family:
                    return home
                continue
            here: Scope | None = scope
            while here is not None:
                if here is home.scope:
                    return home
                here = here.parent
        return None

    def visible_at(self, site: CallSite) -> str | None:
        """The same at a call, where it has been made by then."""
        made = [
            (anchor, before)
            for home, anchor, before in self.places(site.scope)
            if home is site.scope
        ]
        call = self.program.module.statement_of(site.call)
        if made and not any(self._is_made(*one, call) for one in made):
            return None
        return self.visible(site.scope)

    def _is_made(self, anchor: ast.stmt, before: bool, place: ast.stmt) -> bool:
        """Whether a scaler made beside a statement is there where a place is reached; what is made
        before a loop is there in the loop.
        """
        around = (place, *self.program.module.ancestors(place))
        return has_run(self.program, anchor, place) or (
            before and anchor in around
        )
