"""From the model of one loop to its plan: preconditions, regions, casts, the steps, the scaler."""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.files.files_first import refuse_without_files
from amp_migrate.planner.files.notebook_cells import check_cells
from amp_migrate.planner.gradients.clipped_parts import refuse_clipped_parts
from amp_migrate.planner.gradients.read_below import refuse_read_below
from amp_migrate.planner.gradients.second_order import keeps_graph
from amp_migrate.planner.gradients.uses import check_gradients
from amp_migrate.planner.groups import Group
from amp_migrate.planner.half_safety.autograd_functions import unprotected
from amp_migrate.planner.half_safety.bce import ProbabilityLosses
from amp_migrate.planner.half_safety.bce_islands import set_apart
from amp_migrate.planner.half_safety.devices_apart import devices_apart
from amp_migrate.planner.half_safety.gradients_inside import refuse_in_callers
from amp_migrate.planner.half_safety.gradients_taken import refuse_taken
from amp_migrate.planner.half_safety.hazards import Hazards
from amp_migrate.planner.half_safety.idle_regions import without_idle
from amp_migrate.planner.half_safety.kept_outputs import kept_in_float
from amp_migrate.planner.half_safety.kept_products import products_in_float
from amp_migrate.planner.half_safety.locked_files import refuse_locked_files
from amp_migrate.planner.half_safety.penalties import Penalties
from amp_migrate.planner.half_safety.region_exit_casts import casts_after
from amp_migrate.planner.half_safety.running_sums import sums_in_float
from amp_migrate.planner.loop import Loop, Stepper, find_loop
from amp_migrate.planner.loop_edits import LoopPlan, under_autocast
from amp_migrate.planner.optimizers import refusals as optimizers
from amp_migrate.planner.preconditions import checks as screen
from amp_migrate.planner.preconditions.old_torch import (
    refuse_old_loop,
    refuse_old_torch,
)
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.regions.forward_regions import RegionFinder
from amp_migrate.planner.regions.handed_losses import (
    Above,
    is_handed,
    regions_above,
)
from amp_migrate.planner.regions.left_to_heirs import refuse_unlinked_heirs
from amp_migrate.planner.regions.loss_flow import flow_of
from amp_migrate.planner.regions.statement_runs import (
    Region,
    Regions,
    forwards_before,
    joined,
)
from amp_migrate.planner.regions.weight_cache import refuse_cached
from amp_migrate.planner.scaler_placement.helpers import reach
from amp_migrate.planner.scaler_placement.placement import Wiring
from amp_migrate.planner.spelling import Spellings
from amp_migrate.planner.steps.helper_steps import HelperSteps, updates_inside
from amp_migrate.planner.steps.order import check_order
from amp_migrate.planner.steps.scheduler import guard_edits
from amp_migrate.planner.steps.step_sequence import Cycle
from amp_migrate.planner.switch.amp_switch import SwitchFinder
from amp_migrate.rewrite.edits import Edit

_ALL_FLOAT = (
    "all that computes this loss must stay in float32, so nothing would be "
    "left to put under autocast"
)


class LoopPlanner:
    """Plans the loops of one program, one by one; the wiring of the scalers grows with them."""

    asks_first = False  # whether loops that need other files only say so
    asks_for_all = False  # see `Hazards`

    def __init__(
        self,
        program: Program,
        spellings: Spellings,
        switches: SwitchFinder,
        wiring: Wiring,
    ) -> None:
        self.program = program
        self.settings = spellings.settings
        self.switches = switches
        self.wiring = wiring
        self.beside: list[LoopPlan] = []
        """What was planned for the loops of the same scope, this one among them."""

    def plan(self, group: Group) -> LoopPlan:
        """Everything that the loop needs. Raises Refusal."""
        scope, backwards = group.scope, group.backwards
        loop, marked = self._screened(group)
        is_float16 = self.settings.dtype != "bfloat16"
        hazards = Hazards(
            self.program, float16=is_float16, asks_for_all=self.asks_for_all
        )
        penalties = Penalties(self.program, scope, hazards)
        losses = ProbabilityLosses(self.program, scope, backwards, hazards)
        late = losses.late() | penalties.late()
        regions, before = self._regions(group, loop, late)
        check_cells(regions.regions)
        before = self._entered(loop, regions, before, hazards, losses)
        penalties.casts(
            regions, late, [(where, region.first) for where, region in before]
        )
        self._leave(loop, regions, before, late, hazards)
        refuse_locked_files(hazards, self.wiring.project, backwards[0])
        if not is_float16:
            return self._unscaled(loop, regions, before, hazards)
        screen.refuse_remote(self.program, backwards)
        steps = [
            edit for stepper in loop.steppers for edit in self._cycle(stepper)
        ]
        scaler = self._scaler(loop)
        self._switch_off(marked, before, backwards[0])
        self._check_switch(scope, regions, backwards[0])
        check_order(self.program, scope, backwards, self.wiring)
        return LoopPlan(
            loop,
            without_idle(hazards.asked, scope, regions),
            tuple(before),
            scaler,
            tuple(hazards.casts),
            tuple(steps),
            tuple(sorted(hazards.functions, key=lambda one: one.node.lineno)),
            tuple(hazards.wanted),
            self._islands(hazards, backwards[0]),
        )

    def _leave(
        self,
        loop: Loop,
        regions: Regions,
        before: list[tuple[Scope, Region]],
        late: frozenset[ast.stmt],
        hazards: Hazards,
    ) -> None:
        """Collect the casts of what leaves the regions, here and in callers. Raises Refusal."""
        if not (regions.regions or regions.hoists or before):
            raise Refusal("loses-precision", loop.backwards[0], _ALL_FLOAT)
        kept_in_float(self.program, loop.scope, hazards)
        for where in dict.fromkeys([loop.scope, *(one for one, _ in before)]):
            own = where is not loop.scope
            casts_after(
                self.program, where, late, hazards, self.settings, own=own
            )
        products_in_float(self.program, loop.scope, hazards)
        sums_in_float(
            self.program, [loop.scope, *(one for one, _ in before)], hazards
        )

    def _unscaled(
        self,
        loop: Loop,
        regions: Regions,
        before: list[tuple[Scope, Region]],
        hazards: Hazards,
    ) -> LoopPlan:
        """Without a scaler there are no steps to change, and each region asks for the device
        itself.
        """
        node = loop.backwards[0]
        for where, region in [
            *((loop.scope, one) for one in regions.regions),
            *before,
        ]:
            self.switches.check_read(node, where, region.first)
        return LoopPlan(
            loop,
            regions,
            tuple(before),
            "",
            tuple(hazards.casts),
            (),
            tuple(hazards.functions),
            (),
            self._islands(hazards, node),
        )

    def _islands(self, hazards: Hazards, node: ast.AST) -> dict[ast.stmt, str]:
        """Raises Refusal where the device of one has no name."""
        named = f'"{self.switches.named_device}"'
        is_any = self.switches.use.other
        return devices_apart(hazards, node, None if is_any else named)

    def _entered(
        self,
        loop: Loop,
        regions: Regions,
        before: list[tuple[Scope, Region]],
        hazards: Hazards,
        losses: ProbabilityLosses,
    ) -> list[tuple[Scope, Region]]:
        """The regions in other scopes; what breaks in any of them is collected."""
        scope = loop.scope
        before = [*before, *self._forwards_before(loop)]
        before = joined(before)
        refuse_in_callers(self.program, before)
        refuse_taken(
            self.program, [*((scope, one) for one in regions.regions), *before]
        )
        hazards.enter(under_autocast(scope, regions, before))
        for plan in self.beside:
            hazards.enter(plan.statements())
        losses.mend()
        for where, region in (
            *((scope, one) for one in regions.regions),
            *before,
        ):
            refuse_cached(
                self.program, self.settings, region.statements(), where
            )
        for where, region in (
            *before,
            *((scope, one) for one in regions.regions),
        ):
            _check(hazards, region.statements(), where)
        for hoist in regions.hoists:
            _check(hazards, [hoist.statement], scope)
        if self.switches.use.other and hazards.functions:
            first = next(iter(hazards.functions))  # its device has no name
            raise unprotected(loop.backwards[0], first, elsewhere=False)
        return before

    def _forwards_before(self, loop: Loop) -> list[tuple[Scope, Region]]:
        """The regions of forwards that run before the steps of other scopes."""
        return [
            (s.scope, r)
            for s in loop.steppers
            if s.scope is not loop.scope
            for r in forwards_before(self.program, s.scope, s.backwards)
        ]

    def _outputs(self, loop: Loop) -> frozenset[str]:
        """The attributes that `self.forward()` has set wherever the loop's scope is called."""
        found = {s.scope: set[str]() for s in loop.steppers}
        for scope, region in self._forwards_before(loop):
            step = flow_of(scope, self.program).step(region.first)
            if scope.self_name == loop.scope.self_name:
                found[scope] |= {n for n in step.defines if "." in n}
        return frozenset(set.intersection(*found.values()) if found else ())

    def _switch_off(
        self,
        marked: list[ast.expr],
        above: list[tuple[Scope, Region]],
        node: ast.AST,
    ) -> None:
        """AMP is off for optimizers of second order. Raises Refusal where that cannot be asked."""
        home = self.program.module.scope_of
        if not marked:
            return
        known = all(
            self.wiring.steps_root(one, home(one))
            and self.wiring.scalers.off_for_marked(home(one))
            for one in marked
        )
        if not known or any(
            self.wiring.scalers.visible(where) is None for where, _ in above
        ):
            raise keeps_graph(node)

    def _screened(self, group: Group) -> tuple[Loop, list[ast.expr]]:
        """The loop, where nothing forbids mixed precision before its regions are known, and its
        optimizers for which AMP is off where they are of second order.
        """
        scope, backwards = group.scope, group.backwards
        scaled = self.settings.dtype != "bfloat16"
        screen.screen(self.program, scope, backwards, scaled=scaled)
        loop = find_loop(self.program, group, scaled=scaled)
        refuse_unlinked_heirs(self.program, self.wiring.project, loop)
        marked = screen.screen_training(
            self.program,
            scope,
            backwards,
            project=self.wiring.project,
            scaled=scaled,
        )
        for stepper in loop.steppers if scaled else ():
            self._check_stepper(loop, stepper, asks_order=bool(marked))
        self.switches.skip_cpu(loop)
        if scaled:
            self.switches.refuse_two_devices(loop)
        self.switches.check_device(backwards[0])
        refuse_old_torch(self.settings, backwards[0])
        refuse_old_loop(self.program, scope)
        if self.asks_first and scaled:
            refuse_without_files(self.wiring, loop)
        return loop, marked

    def _regions(
        self, group: Group, loop: Loop, late: frozenset[ast.stmt]
    ) -> tuple[Regions, list[tuple[Scope, Region]]]:
        """The regions of a scope; where it is handed its losses, those of its callers."""
        outputs = self._outputs(loop)
        finder = RegionFinder(
            self.program, group.scope, group.backwards, late, outputs=outputs
        )
        try:
            return finder.find(), []
        except Refusal as refusal:
            if refusal.reason != "loss-computed-elsewhere":
                raise
            above = _regions_above(self.program, group, refusal)
            if not above:
                raise
        return Regions((), (), frozenset()), [one[:2] for one in above]

    def _check_stepper(
        self, loop: Loop, stepper: Stepper, *, asks_order: bool
    ) -> None:
        around = loop.statements(stepper)
        refuse_clipped_parts(self.program, stepper, around)
        refuse_read_below(self.program, loop, stepper)
        for step in stepper.steps:
            where, made = stepper.scope, step
            while made.inner is not None and made.helper is not None:
                where, made = made.helper, made.inner
            optimizers.check_optimizers(
                self.program, where, [made.call], asks_order=asks_order
            )
            within = around if where is stepper.scope else where.body
            check_gradients(self.program, where, [made.call], within)

    def _check_switch(
        self, scope: Scope, regions: Regions, node: ast.AST
    ) -> None:
        """The scaler and the regions must speak of one device; a name hidden by a parameter cannot
        be given to both.
        """
        own = self.switches.own
        for home, anchor, before in self.wiring.scalers.places(scope):
            self.switches.check_read(node, home, anchor, after=not before)
            if own is not None:
                own.text(home, anchor)
        made = {
            s.device_type == '"cuda"'
            for s in self.wiring.scalers.switches_for(scope)
        }
        used = {
            self.switches.at(scope, r.first).device_type == '"cuda"'
            for r in regions.regions
        }
        if self.switches.use.other and len(made | used) > 1:
            raise Refusal(
                "device-out-of-reach",
                node,
                "the device that the loop uses has no name where the scaler would be made",
            )

    def _cycle(self, stepper: Stepper) -> list[Edit]:
        """The edits of unscale_, step and update."""
        optimizers = [step.optimizer for step in stepper.steps]
        scope, backwards = stepper.scope, stepper.backwards
        scaler = self.wiring.provide(optimizers, scope, backwards)
        cycle = Cycle(self.program, scope, backwards, stepper.steps)
        helpers = HelperSteps(self.program, self.wiring, stepper.scope, scaler)
        edits = [
            *cycle.unscale_edits(scaler),
            *cycle.step_edits(scaler),
            *helpers.edits(cycle),
        ]
        if updates_inside(cycle):
            cycle.check_gradients()
            return edits
        if self.settings.guard_scheduler:
            return [*edits, *guard_edits(self.program, stepper, cycle, scaler)]
        return [*edits, *cycle.update_edits(scaler)]

    def _scaler(self, loop: Loop) -> str:
        """The scaler's name where backward is called."""
        first = loop.steppers[0]
        optimizers = [step.optimizer for step in first.steps]
        name = self.wiring.provide(optimizers, first.scope, first.backwards)
        above = first.scope
        for helper in first.chain:
            name, above = reach(self.wiring, above, helper, name), helper
        return name


def _check(hazards: Hazards, statements: list[ast.stmt], scope: Scope) -> None:
    """Collect what a region needs. Raises Refusal for what cannot be mended."""
    set_apart(hazards, statements, scope)
    hazards.check(statements, scope)


def _regions_above(program: Program, group: Group, own: Refusal) -> list[Above]:
    """The regions in the callers; of a loss that is no parameter itself, its `own` reason tells
    more than that of a caller.
    """
    try:
        return regions_above(program, group)
    except Refusal as refusal:
        if refusal.reason == own.reason and not is_handed(program, group):
            raise own from None
        raise
