"""From the model of a program to a plan: the edits that migrate its loops, and what was decided about each of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from amp_migrate.config import Settings
from amp_migrate.edits import (
    AddImport,
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceExpression,
    ReplaceStatement,
    Template,
    WrapStatements,
    moved,
    place,
)
from amp_migrate.guard import Introduced
from amp_migrate.migrate import halfdone, optimizers, screen
from amp_migrate.migrate.bce import ProbabilityLosses
from amp_migrate.migrate.checkpoint import Checkpoints
from amp_migrate.migrate.company import callers, company, savers
from amp_migrate.migrate.customs import decorations
from amp_migrate.migrate.cycle import Cycle
from amp_migrate.migrate.evaluation import evaluation_regions
from amp_migrate.migrate.fences import check_cells, spans_cells
from amp_migrate.migrate.frameworks import framework_loops, switched
from amp_migrate.migrate.hazards import Hazards
from amp_migrate.migrate.home import Wiring
from amp_migrate.migrate.leaving import casts_after
from amp_migrate.migrate.loop import Loop, Stepper, find_loop
from amp_migrate.migrate.order import check_order
from amp_migrate.migrate.penalties import Penalties
from amp_migrate.migrate.refusal import Refusal, Skip
from amp_migrate.migrate.region import Hoist, Region, RegionFinder, Regions, receivers
from amp_migrate.migrate.scheduler import guard_edits
from amp_migrate.migrate.spelling import Spellings, free_name, loss_name
from amp_migrate.migrate.switch import SwitchFinder
from amp_migrate.model.program import Program
from amp_migrate.model.project import Project
from amp_migrate.model.syntax import Module, Scope
from amp_migrate.outcome import LoopOutcome, Note


@dataclass(frozen=True, eq=False)
class LoopPlan:
    """Everything needed to rewrite one loop; spans are resolved when all loops are known."""

    loop: Loop
    regions: Regions
    helpers: tuple[Region, ...]
    """Forwards that a stepping scope runs before it calls the helper with the backward."""
    scaler: str
    casts: tuple[ReplaceExpression, ...]
    steps: tuple[Edit, ...]


@dataclass
class Plan:
    """The decisions about one file."""

    loops: list[LoopOutcome] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    introduced: Introduced = field(default_factory=Introduced)


Blocked: TypeAlias = "Mapping[tuple[str, str], Refusal]"
"""Loops whose rewrite was judged wrong, by path and scope, with the refusal to give instead."""


class Planner:
    """Plans all loops of a program, which is one file or several."""

    def __init__(
        self,
        program: Program,
        settings: Settings,
        blocked: Blocked | None = None,
        project: Project | None = None,
        switches: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
    ) -> None:
        """`project`: the tree that the program's files are part of; `switches`: as `SwitchFinder` takes them."""
        self.blocked = blocked or {}
        self.program = program
        self.settings = settings
        self.project = project or Project()
        self.spellings = Spellings(settings)
        self.switches = SwitchFinder(program, settings, self.spellings, switches)
        self.wiring = Wiring(program, self.switches, self.spellings, free_name(program.module), self.project)
        self.company: dict[str, None] = {}
        """Files that the program would have to hold for a loop that was refused."""
        self.planned: list[LoopPlan] = []
        self.completions: list[halfdone.Completion] = []
        self.hoisted: set[str] = set()
        self.headers: set[str] = set()

    def plan(self) -> dict[str, Plan]:
        """Decide about every loop and collect the edits of those that are migrated; by path."""
        plans = {file.path: Plan() for file in self.program.module.files}
        for scope, loop in framework_loops(self.program, self.settings):
            plans[scope.module.path].loops.append(loop)
        for scope in self.program.training_scopes():
            plans[scope.module.path].loops.append(self._decide(scope))
        for plan in plans.values():
            plan.loops.sort(key=lambda outcome: outcome.line)
        if self.planned:
            self._collect(plans)
        for file in self.program.module.files:
            self._complete(plans[file.path], file)
            self._decorate(plans[file.path], file)
            self._switch_frameworks(plans[file.path], file)
        return plans

    def _switch_frameworks(self, plan: Plan, file: Module) -> None:
        """With `--unsafe`, the settings of frameworks that are literals in the code."""
        torch = self.spellings.of(file.root).torch
        for one in switched(self.program, file, self.settings, torch):
            plan.edits += self._own(one.edits)
            adds = self.spellings.imports_torch(file) and any(f"{torch}." in change.new for change in one.changes)
            plan.edits += [AddImport("torch")] if adds and AddImport("torch") not in plan.edits else []
            known = plan.introduced.settings | frozenset(one.changes)
            imports = plan.introduced.imports_torch or adds
            plan.introduced = replace(plan.introduced, settings=known, imports_torch=imports, torch=torch)

    def _decide(self, scope: Scope) -> LoopOutcome:
        backwards = self.program.effects.backwards(scope)
        line = backwards[0].lineno
        before = self.wiring.snapshot()
        try:
            plan = self._plan_loop(scope, backwards)
            steps = [step for stepper in plan.loop.steppers for step in stepper.steps]
            self.company |= dict.fromkeys(callers(scope, steps, self.program, self.project))
            self.planned.append(plan)
        except Refusal as refusal:
            self.wiring.restore(before)
            if refusal.reason == "already-amp" and self._completes(scope, backwards):
                return LoopOutcome(line, scope.qualname, "migrated", None, halfdone.DONE)
            self.company |= dict.fromkeys(company(refusal, scope, self.program, self.project))
            if isinstance(refusal, Skip):
                return LoopOutcome(line, scope.qualname, "skipped", refusal.reason, refusal.message)
            return LoopOutcome(line, scope.qualname, "refused", refusal.reason, self._located(refusal, line))
        return LoopOutcome(line, scope.qualname, "migrated")

    def _completes(self, scope: Scope, backwards: list[ast.Call]) -> bool:
        """Whether a loop that has a scaler lacks autocast, which is then planned."""
        blocked = (scope.module.path, scope.qualname) in self.blocked
        spelling = self.spellings.of(scope)
        found = None if blocked else halfdone.completion(self.program, scope, backwards, self.settings, spelling)
        self.completions += [found] if found is not None else []
        return found is not None

    def _complete(self, plan: Plan, file: Module) -> None:
        """The regions of the file's half-done loops."""
        done = [c for c in self.completions if c.scope.module is file]
        edits = [self._wrap(region, c.header) for c in done for region in c.regions]
        casts = list(dict.fromkeys(cast for c in done for cast in c.casts))
        adds = bool(done) and self.spellings.imports_torch(file) and AddImport("torch") not in plan.edits
        plan.edits += [*self._own([*edits, *casts]), *([AddImport("torch")] if adds else [])]
        known = (plan.introduced.regions or frozenset()) | {c.header for c in done}
        count = plan.introduced.float_casts + len(casts)
        torch = self.spellings.of(file.root).torch
        imports = plan.introduced.imports_torch or adds
        plan.introduced = replace(plan.introduced, regions=known, float_casts=count, imports_torch=imports, torch=torch)

    def _decorate(self, plan: Plan, file: Module) -> None:
        """The custom autograd functions of a file in which autocast is new, or already is."""
        if not plan.edits or self.switches.use.other:
            return
        found = list(decorations(self.program, self.spellings.of(file.root)))
        plan.edits += self._own(one.edit for one in found)
        plan.introduced = replace(plan.introduced, decorators=frozenset(one.decorator for one in found))

    def _own(self, edits: Iterable[Edit]) -> list[Edit]:
        """Edits of one file, by their places in it."""
        base = self.program.module.place
        return [moved(edit, -base(where)[1]) if (where := place(edit)) is not None else edit for edit in edits]

    def _located(self, refusal: Refusal, line: int) -> str:
        return refusal.message if refusal.line == line else f"line {refusal.line}: {refusal.message}"

    def _plan_loop(self, scope: Scope, backwards: list[ast.Call]) -> LoopPlan:
        if (scope.module.path, scope.qualname) in self.blocked:
            raise self.blocked[scope.module.path, scope.qualname]
        scaled = self.settings.dtype != "bfloat16"
        screen.screen(self.program, scope, backwards, scaled=scaled)
        loop = find_loop(self.program, scope, backwards, scaled=scaled)
        screen.screen_training(self.program, scope, backwards, scaled=scaled)
        for stepper in loop.steppers if scaled else ():
            optimizers.check_optimizers(self.program, stepper.scope, stepper.steps)
            optimizers.check_gradients(self.program, stepper.scope, stepper.steps)
        if self.switches.cpu_only:
            raise Skip(
                "cpu-only", backwards[0], "this file has no device code: it runs on the CPU, where AMP gains nothing"
            )
        hazards = Hazards(self.program, float16=self.settings.dtype != "bfloat16")
        penalties = Penalties(self.program, scope, hazards)
        late = ProbabilityLosses(self.program, scope, backwards, hazards).late() | penalties.late()
        regions = RegionFinder(self.program, scope, backwards, late).find()
        check_cells(regions.regions)
        before = [(s.scope, r) for s in loop.steppers if s.scope is not scope for r in self._forwards(s)]
        helpers = tuple(region for _, region in before)
        for region in regions.regions:
            hazards.check(region.statements(), scope, regions.tainted)
        for hoist in regions.hoists:
            hazards.check([hoist.statement], scope, regions.tainted)
        penalties.casts(regions, late, [(where, region.first) for where, region in before])
        casts_after(self.program, scope, regions, late, hazards, self.settings)
        if self.settings.dtype == "bfloat16":
            return LoopPlan(loop, regions, helpers, "", tuple(hazards.casts), ())
        screen.refuse_remote(self.program, backwards)
        steps = [edit for stepper in loop.steppers for edit in self._cycle(stepper)]
        scaler = self._scaler(loop)
        self._check_switch(scope, regions, backwards[0])
        check_order(self.program, scope, backwards, self.wiring)
        return LoopPlan(loop, regions, helpers, scaler, tuple(hazards.casts), tuple(steps))

    def _check_switch(self, scope: Scope, regions: Regions, node: ast.AST) -> None:
        """The scaler and the regions must speak of one device; a name hidden by a parameter cannot be given to both."""
        made = {s.device_type == '"cuda"' for s in self.wiring.switches_for(scope)}
        used = {self.switches.at(scope, r.first).device_type == '"cuda"' for r in regions.regions}
        if self.switches.use.other and len(made | used) > 1:
            raise Refusal(
                "unsupported-shape", node, "the device that the loop uses has no name where the scaler would be made"
            )

    def _forwards(self, stepper: Stepper) -> list[Region]:
        """`self.forward()` before `self.backward_G()`: the forward that the helper's loss continues."""
        found = []
        for statement in stepper.scope.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                call = statement.value
                if call not in stepper.backwards and self.program.effects.is_forward(call, stepper.scope):
                    found.append(Region(statement, statement, stepper.scope.body))
        return found

    def _cycle(self, stepper: Stepper) -> list[Edit]:
        optimizers = [c.func.value for c in stepper.steps if isinstance(c.func, ast.Attribute)]
        scaler = self.wiring.provide(optimizers, stepper.scope, stepper.backwards)
        cycle = Cycle(self.program, stepper.scope, stepper.backwards, stepper.steps)
        edits = [*cycle.unscale_edits(scaler), *cycle.step_edits(scaler)]
        if self.settings.guard_scheduler:
            return [*edits, *guard_edits(self.program, stepper, cycle, scaler)]
        return [*edits, *cycle.update_edits(scaler)]

    def _scaler(self, loop: Loop) -> str:
        """The scaler's name where backward is called."""
        first = loop.steppers[0]
        optimizers = [c.func.value for c in first.steps if isinstance(c.func, ast.Attribute)]
        name = self.wiring.provide(optimizers, first.scope, first.backwards)
        return name if first.scope is loop.scope else self.wiring.reach(first.scope, loop.scope, name)

    # -- edits

    def _collect(self, plans: dict[str, Plan]) -> None:
        edits: dict[Edit, None] = {}
        for loop in self.planned:
            edits.update(dict.fromkeys(self._loop_edits(loop)))
        if self.settings.dtype != "bfloat16":
            self.company |= dict.fromkeys(savers(self.program, self.project))
            checkpoints = Checkpoints(self.program, self.wiring)
            checkpoints.plan()
            self.company |= checkpoints.company
            edits.update(dict.fromkeys([*self.wiring.constructions(), *self.wiring.edits, *checkpoints.edits]))
            for file, note in [*checkpoints.notes, *self._optional_notes()]:
                plans[file.path].notes.append(note)
        if self.settings.eval:
            edits.update(dict.fromkeys(self._evaluation()))
        for edit in edits:
            where = place(edit)
            assert where is not None
            file, base = self.program.module.place(where)
            plans[file.path].edits.append(moved(edit, -base))
        for file in self.program.module.files:
            plan = plans[file.path]
            adds = self.spellings.imports_torch(file) and any(self._names_torch(e, file) for e in plan.edits)
            plan.edits += [AddImport("torch")] if adds else []
            plan.introduced = self._introduced(plan.edits, file, adds)

    def _names_torch(self, edit: Edit, file: Module) -> bool:
        return f"{self.spellings.of(file.root).torch}." in repr(edit)

    def _optional_notes(self) -> Iterator[tuple[Module, Note]]:
        for function, why in self.wiring.optional.values():
            message = f"{why}: callers that pass no `{self.wiring.name}` stay in float32"
            yield self.program.scope(function).module, Note(function.lineno, function.col_offset + 1, message)

    def _evaluation(self) -> list[Edit]:
        taken = [loop.loop.scope for loop in self.planned]
        found = [one for one in evaluation_regions(self.program, taken) if not spans_cells(one[1])]
        return [self._wrap(region, self._header(scope, region.first, self._visible(scope))) for scope, region in found]

    def _visible(self, scope: Scope) -> str | None:
        """The scaler's name in a scope that was not given one, where it can be seen there."""
        return self.wiring.visible(scope)

    def _loop_edits(self, plan: LoopPlan) -> list[Edit]:
        scope = plan.loop.scope
        edits: list[Edit] = [*plan.casts, *plan.steps]
        for region in plan.regions.regions:
            edits.append(self._wrap(region, self._header(scope, region.first, plan.scaler)))
        for stepper in plan.loop.steppers:
            for region in plan.helpers if stepper.scope is not scope else ():
                edits.append(
                    self._wrap(region, self._header(stepper.scope, region.first, self.wiring.visible(stepper.scope)))
                )
        hoisted = {id(h.backward) for h in plan.regions.hoists}
        for hoist in plan.regions.hoists:
            edits += self._hoist_edits(hoist, scope, plan.scaler)
        for call in plan.loop.backwards:
            if id(call) not in hoisted and plan.scaler:
                edits.append(self._scale(call, plan.scaler))
        return edits

    def _wrap(self, region: Region, header: str) -> WrapStatements:
        span = self.program.module.span
        return WrapStatements(span(region.first), span(region.last), header)

    def _header(self, scope: Scope, place: ast.stmt, scaler: str | None) -> str:
        """The context of a region: it asks the scaler, or the switch itself where there is none."""
        here = self.switches.at(scope, place)
        holder = (scaler or "").rpartition(".")[0]
        prefix = f"{holder}." if holder else ""
        if self.settings.dtype == "auto" and scaler:
            enabled: str | None = f"{prefix}use_amp"
        elif not scaler:
            enabled = here.enabled
        else:
            switched = id(scope.node) in self.wiring.optional or any(
                s.enabled is not None for s in self.wiring.switches_for(scope)
            )
            enabled = f"{scaler}.is_enabled()" if switched else None
        if id(scope.node) in self.wiring.threaded:  # every caller is known, so a device is what the callers pass
            here = self.switches.at(scope, place, trusted=True)
        header = self.spellings.of(scope).autocast(here.device_type, enabled, prefix)
        self.headers.add(header)
        return header

    def _scale(self, call: ast.Call, scaler: str) -> Edit:
        span = self.program.module.span
        if self.program.canonical(call.func) == "torch.autograd.backward":
            given = call.args[0] if call.args else call.keywords[0].value
            return ReplaceExpression(span(given), Template(f"{scaler}.scale($0)", (span(given),)))
        receiver = receivers(call, self.program)[0]
        return ReplaceExpression(span(receiver), Template(f"{scaler}.scale($0)", (span(receiver),)))

    def _hoist_edits(self, hoist: Hoist, scope: Scope, scaler: str) -> list[Edit]:
        """The loss in backward's receiver gets a name inside the region."""
        span = self.program.module.span
        name = loss_name(self.program.module, set(scope.bindings) | self.program.module.identifiers)
        self.hoisted.add(name)
        arguments = ", ".join(self.program.module.source(a) for a in [*hoist.backward.args, *hoist.backward.keywords])
        scaled = f"{scaler}.scale({name})" if scaler else name
        backward = Template(f"{scaled}.backward({arguments})")
        loss = Template(f"{name} = $0", (span(hoist.receiver),))
        if hoist.region is not None:
            return [InsertAfter(span(hoist.region.last), (loss,)), ReplaceStatement(span(hoist.statement), (backward,))]
        header = self._header(scope, hoist.statement, scaler)
        wrapped = Template(f"with {header}:\n    {loss.text}", loss.parts)
        return [ReplaceStatement(span(hoist.statement), (wrapped, backward))]

    def _set_elsewhere(self, file: Module) -> bool:
        return any(home.attribute and home.scope.module is not file for home in self.wiring.homes)

    def _introduced(self, edits: list[Edit], file: Module, imports_torch: bool) -> Introduced:
        paths = {self.wiring.name} | {f"{h.attribute}.{self.wiring.name}" for h in self.wiring.homes if h.attribute}
        paths |= {plan.scaler for plan in self.planned if plan.scaler}
        names: set[str] = set()
        if self.settings.dtype == "auto":
            prefixes = {p.rpartition(".")[0] for p in paths}
            names = {f"{p}.{n}" if p else n for p in prefixes for n in ("use_amp", "amp_dtype")}
        if self.settings.guard_scheduler:
            names.add("scale_before")
        casts = sum(isinstance(e, ReplaceExpression) and e.replacement.text == "$0.float()" for e in edits)
        scalers = frozenset(paths) if self.settings.dtype != "bfloat16" else frozenset()
        return Introduced(
            scalers=scalers,
            hoisted=frozenset(self.hoisted),
            names=frozenset(names),
            given=frozenset(self.wiring.names) if self._set_elsewhere(file) else frozenset(),
            imports_torch=imports_torch,
            torch=self.spellings.of(file.root).torch,
            float_casts=casts,
            regions=frozenset(self.headers),
            constructors=frozenset(_assigned(edits, "GradScaler(")),
            values=frozenset(_assigned(edits, "")) if names else None,
        )


def _assigned(edits: list[Edit], word: str) -> set[str]:
    """The right-hand sides of the inserted assignments that hold `word`."""
    lines = (t.text for e in edits if isinstance(e, (InsertAfter, InsertBefore)) for t in e.statements)
    return {line.partition(" = ")[2] for line in lines if " = " in line and word in line and "$" not in line}


__all__ = ["Plan", "Planner"]
