"""From the plan of a loop to its edits: regions, scaled backwards, losses that get a name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.files.notebook_cells import spans_cells
from amp_migrate.planner.files.vicinity import callers_of_scope
from amp_migrate.planner.half_safety.autograd_functions import Custom
from amp_migrate.planner.loop import Loop
from amp_migrate.planner.regions.evaluation import evaluation_regions
from amp_migrate.planner.regions.statement_runs import (
    Hoist,
    Region,
    Regions,
    receivers,
)
from amp_migrate.planner.regions.trained_after import trains_after
from amp_migrate.planner.regions.weight_cache import loses_gradients
from amp_migrate.planner.scaler_placement.given import given_in
from amp_migrate.planner.scaler_placement.placement import Wiring
from amp_migrate.planner.spelling import Spellings, loss_name
from amp_migrate.planner.switch.amp_switch import SwitchFinder
from amp_migrate.rewrite.edits import (
    Edit,
    InsertAfter,
    ReplaceExpression,
    ReplaceStatement,
    Template,
    WrapStatements,
)


@dataclass(frozen=True, eq=False)
class LoopPlan:
    """Everything needed to rewrite one loop; spans are resolved when all loops are known."""

    loop: Loop
    regions: Regions
    above: tuple[tuple[Scope, Region], ...]
    """Forwards that other scopes run before they call the one with the backward."""
    scaler: str
    casts: tuple[ReplaceExpression, ...]
    steps: tuple[Edit, ...]
    functions: tuple[Custom, ...]
    """Custom autograd functions that run under autocast and get decorators."""
    wanted: tuple[str, ...]
    """Files without which it is not known what half precision does to the values."""
    islands: Mapping[ast.stmt, str]
    """Statements of helpers that are computed with autocast off, with the type of their device."""

    def statements(self) -> Iterator[tuple[list[ast.stmt], Scope]]:
        """What runs under autocast."""
        return under_autocast(self.loop.scope, self.regions, self.above)


def under_autocast(
    scope: Scope, regions: Regions, above: Iterable[tuple[Scope, Region]]
) -> Iterator[tuple[list[ast.stmt], Scope]]:
    """The statements of regions, those of other scopes among them, and of hoisted losses."""
    for region in regions.regions:
        yield region.statements(), scope
    for hoist in regions.hoists:
        yield [hoist.statement], scope
    for where, region in above:
        yield region.statements(), where


class LoopEdits:
    """Renders the plans of one program; it keeps the new names and contexts as it goes."""

    def __init__(
        self,
        program: Program,
        spellings: Spellings,
        switches: SwitchFinder,
        wiring: Wiring,
    ) -> None:
        self.program = program
        self.spellings = spellings
        self.settings = spellings.settings
        self.switches = switches
        self.wiring = wiring
        self.headers: set[str] = set()
        """The contexts of the regions."""
        self.hoisted: set[str] = set()
        """The new names of losses."""

    def of(self, plan: LoopPlan) -> list[Edit]:
        """The edits of one loop."""
        scope = plan.loop.scope
        edits: list[Edit] = [*plan.casts, *plan.steps]
        for region in plan.regions.regions:
            edits.append(
                self.wrap(region, self._of_region(scope, region, plan.scaler))
            )
        for where, region in plan.above:
            given = given_in(self.wiring, where, scope)
            if given is not None:
                header = self._of_region(where, region, given)
                edits.append(self.wrap(region, header))
        runs = self._runs(plan.islands)
        edits += [self._apart(run, plan.islands[run[0]]) for run in runs]
        hoisted = {id(h.backward) for h in plan.regions.hoists}
        for hoist in plan.regions.hoists:
            edits += self._hoist_edits(hoist, scope, plan.scaler)
        for call in plan.loop.backwards:
            if id(call) not in hoisted and plan.scaler:
                edits.append(self._scale(call, plan.scaler))
        return edits

    def evaluation(self, planned: Iterable[LoopPlan]) -> list[Edit]:
        """Regions around the forwards of evaluation, beside loops that are migrated."""
        taken = [loop.loop.scope for loop in planned]
        found = [
            one
            for one in evaluation_regions(self.program, taken)
            if not spans_cells(one[1])
        ]
        return [
            self.wrap(
                region,
                self._header(
                    scope, region.first, self.wiring.scalers.visible(scope)
                ),
            )
            for scope, region in found
        ]

    def _runs(self, islands: Iterable[ast.stmt]) -> list[list[ast.stmt]]:
        """Statements that stand side by side get one context."""
        runs: list[list[ast.stmt]] = []
        for statement in sorted(
            islands, key=lambda one: self.program.module.span(one).start
        ):
            block = self.program.module.block_of(statement)
            before = (
                block[block.index(statement) - 1]
                if block.index(statement)
                else None
            )
            if runs and runs[-1][-1] is before:
                runs[-1].append(statement)
            else:
                runs.append([statement])
        return runs

    def _apart(self, run: list[ast.stmt], device: str) -> WrapStatements:
        scope = self.program.module.scope_of(run[0])
        header = self.spellings.of(scope).no_autocast(device)
        self.headers.add(header)
        span = self.program.module.span
        return WrapStatements(span(run[0]), span(run[-1]), header)

    def wrap(self, region: Region, header: str) -> WrapStatements:
        """A region under a context."""
        span = self.program.module.span
        return WrapStatements(span(region.first), span(region.last), header)

    def _of_region(
        self, scope: Scope, region: Region, scaler: str | None
    ) -> str:
        """The context of a region of a training loop."""
        cached = not loses_gradients(
            self.program, self.settings, region.statements(), scope
        )
        return self._header(scope, region.first, scaler, cached=cached)

    def _header(
        self,
        scope: Scope,
        place: ast.stmt,
        scaler: str | None,
        *,
        cached: bool = True,
    ) -> str:
        """The context of a region: it asks the scaler, or the switch itself where there is none."""
        here = self.switches.at(scope, place)
        holder = (scaler or "").rpartition(".")[0]
        prefix = f"{holder}." if holder else ""
        if self.settings.dtype == "auto" and scaler:
            enabled: str | None = f"{prefix}use_amp"
        elif not scaler:
            enabled = here.enabled
        else:
            switched = self._may_lack_one(scope) or any(
                s.enabled is not None
                for s in self.wiring.scalers.switches_for(scope)
            )
            enabled = f"{scaler}.is_enabled()" if switched else None
            if not self.wiring.scalers.is_given(scope) and not trains_after(
                self.program, scope, place
            ):
                enabled = here.enabled
        header = self.spellings.of(scope).autocast(
            here.device_type, enabled, prefix, cached=cached
        )
        self.headers.add(header)
        return header

    def _may_lack_one(self, scope: Scope) -> bool:
        """Whether callers may pass no scaler to a function, or to one that leads to it: then it is
        off.
        """
        leading = callers_of_scope(self.program, scope)
        return any(id(one) in self.wiring.optional for one in leading)

    def _scale(self, call: ast.Call, scaler: str) -> Edit:
        span = self.program.module.span
        if self.program.canonical(call.func) == "torch.autograd.backward":
            given = call.args[0] if call.args else call.keywords[0].value
            return ReplaceExpression(
                span(given), Template(f"{scaler}.scale($0)", (span(given),))
            )
        receiver = receivers(call, self.program)[0]
        return ReplaceExpression(
            span(receiver), Template(f"{scaler}.scale($0)", (span(receiver),))
        )

    def _hoist_edits(
        self, hoist: Hoist, scope: Scope, scaler: str
    ) -> list[Edit]:
        """The loss in backward's receiver gets a name inside the region."""
        span = self.program.module.span
        name = loss_name(
            self.program.module,
            set(scope.bindings) | self.program.module.identifiers,
        )
        self.hoisted.add(name)
        arguments = ", ".join(
            self.program.module.source(a)
            for a in [*hoist.backward.args, *hoist.backward.keywords]
        )
        scaled = f"{scaler}.scale({name})" if scaler else name
        backward = Template(f"{scaled}.backward({arguments})")
        loss = Template(f"{name} = $0", (span(hoist.receiver),))
        if hoist.region is not None:
            return [
                InsertAfter(span(hoist.region.last), (loss,)),
                ReplaceStatement(span(hoist.statement), (backward,)),
            ]
        header = self._header(scope, hoist.statement, scaler)
        wrapped = Template(f"with {header}:\n    {loss.text}", loss.parts)
        return [ReplaceStatement(span(hoist.statement), (wrapped, backward))]
