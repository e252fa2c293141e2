"""From the model of a program to a plan: the edits that migrate its loops, and what was decided
about each of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from amp_migrate.config import Settings
from amp_migrate.model.budget import BudgetEndedError, at_most, for_loop
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.outcome import Alone, LoopOutcome, Note
from amp_migrate.planner import half_done as halfdone
from amp_migrate.planner.askers import askers
from amp_migrate.planner.checkpoints.saved_states import Checkpoints
from amp_migrate.planner.files.alone import refuse_alone, told_alone
from amp_migrate.planner.files.file_additions import FileAdditions
from amp_migrate.planner.files.file_plan import Plan
from amp_migrate.planner.files.related_files import (
    callers,
    company,
    makers,
    savers,
    that_show,
)
from amp_migrate.planner.gradients.clipped_parts import clipped_parts
from amp_migrate.planner.groups import Group, groups
from amp_migrate.planner.half_safety.naming import Unnamed
from amp_migrate.planner.introduced import introduced
from amp_migrate.planner.loop_edits import LoopEdits, LoopPlan
from amp_migrate.planner.loop_planner import LoopPlanner
from amp_migrate.planner.plan_notes import open_notes, optional_notes
from amp_migrate.planner.preconditions.anomaly_detection import (
    files_that_may_switch,
)
from amp_migrate.planner.preconditions.frameworks import framework_loops
from amp_migrate.planner.preconditions.unparsed_imports import (
    refuse_unparsed_imports,
)
from amp_migrate.planner.refusal import Refusal, Skip, place_of
from amp_migrate.planner.regions.given_back import goes_on
from amp_migrate.planner.regions.joined_wraps import joined
from amp_migrate.planner.regions.open_calls import (
    OpenCall,
    open_calls,
    waits_for,
)
from amp_migrate.planner.regions.shared_forwards import shared
from amp_migrate.planner.scaler_placement.placement import Wiring
from amp_migrate.planner.shared_callers import with_callers_shared
from amp_migrate.planner.spelling import Spellings, free_name
from amp_migrate.planner.steps.caught_steps import caught_steps
from amp_migrate.planner.steps.finite_guards import finite_guards
from amp_migrate.planner.steps.shared_steps import shared_step
from amp_migrate.planner.steps.unknown_steps import unknown_steps
from amp_migrate.planner.switch.amp_switch import SwitchFinder
from amp_migrate.planner.switch.options_of_callers import files_with_switches
from amp_migrate.project.module_graph import Project
from amp_migrate.rewrite.edits import (
    AddImport,
    Edit,
    moved,
    place,
)

Blocked: TypeAlias = "Mapping[tuple[str, str, int], Refusal]"
"""Loops whose rewrite was judged wrong, by path, scope and line of their first backward, with the
refusal to give instead.
"""


_TOO_MUCH = (
    "what the loop runs, and what its values are made of, leads to more than can be followed: call "
    "the model and the loss by name in it, or leave what it does not need to other files"
)


class Planner:
    """Plans all loops of a program, which is one file or several."""

    held_back = False
    """Whether a loop was refused for what other files hold."""
    alone: Alone | None = None
    """Why no files that loops ask for will join the program."""

    def __init__(
        self,
        program: Program,
        settings: Settings,
        blocked: Blocked | None = None,
        project: Project | None = None,
        switches: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
    ) -> None:
        """`project`: the tree that the program's files are part of; `switches`: as `SwitchFinder`
        takes them.
        """
        self.blocked = blocked or {}
        self.program = program
        self.settings = settings
        self.project = project or Project()
        self.spellings = Spellings(settings, program.module.files)
        self.switches = SwitchFinder(
            program, settings, self.spellings, switches
        )
        name = free_name(program.module)
        self.wiring = Wiring(
            program, self.switches, self.spellings, name, self.project
        )
        self.company: dict[str, None] = {}
        """Files that the program would have to hold for a loop that was refused."""
        self.planned: list[LoopPlan] = []
        self.opened: dict[OpenCall, None] = {}
        """What the planned loops run and nothing was found of."""
        self.conflicts: dict[tuple[str, str, int], Refusal] = {}
        """Loops to block, as `blocked` does, and to plan all again."""
        self.left: list[Group] = []
        """Groups that were refused, so that nothing scales their losses."""
        self.unnamed: dict[tuple[str, str], tuple[Unnamed, ...]] = {}
        """What needs a name before a refused loop can be planned, by path and scope."""
        self.completions: list[halfdone.Completion] = []
        asked = (program, self.spellings, self.switches, self.wiring)
        self.edits = LoopEdits(*asked)
        self.additions = FileAdditions(program, settings, self.edits)
        self.loops = LoopPlanner(*asked)

    def plan(self) -> dict[str, Plan]:
        """Decide about every loop and collect the edits of those that are migrated; by path."""
        plans = {file.path: Plan() for file in self.program.module.files}
        for scope, loop in framework_loops(self.program, self.settings):
            plans[scope.module.path].loops.append(loop)
        for scope in self.program.training_scopes:
            plans[scope.module.path].loops += self._decide_all(scope)
        self.planned = with_callers_shared(
            self.planned, self.loops, self._plan_loop
        )
        for plan in plans.values():
            plan.loops.sort(key=lambda outcome: outcome.line)
        if self._conflicts():
            return plans
        if self.planned:
            self._collect(plans)
            hidden = that_show(
                self.switches.unresolved, self.program, self.project
            )
            self.company |= dict.fromkeys(hidden)
        for file in self.program.module.files:
            plan = plans[file.path]
            self.additions.complete(plan, file, self.completions)
            self.additions.decorate(plan, file, self.planned)
            self.additions.switch_frameworks(plan, file)
        return plans

    def _conflicts(self) -> bool:
        """Whether a planned loop shares its forward or its step with a refused one, and is blocked
        for it.
        """
        for plan in self.planned:
            scope = plan.loop.scope
            regions = [
                *((scope, one) for one in plan.regions.regions),
                *plan.above,
            ]
            refusal = shared(
                self.program, plan.loop.backwards[0], regions, self.left
            )
            refusal = refusal or shared_step(self.program, plan.loop, self.left)
            refusal = refusal or goes_on(
                self.program, scope, plan.loop.backwards, regions
            )
            if refusal is not None:
                self.conflicts[_key(scope, plan.loop.backwards[0])] = refusal
        return bool(self.conflicts)

    def _decide_all(self, scope: Scope) -> list[LoopOutcome]:
        """A verdict for each group of backwards of a scope."""
        backwards = self.program.effects.backwards(scope)
        try:
            found = groups(self.program, scope, backwards)
        except Refusal as refusal:
            return [self._refused(refusal, scope, backwards)]
        before, known = self.wiring.snapshot(), len(self.planned)
        outcomes = [self._decide(group) for group in found]
        if len(self.planned) > known + 1:
            self._decide_again(found, before, known)
        return outcomes

    def _decide_again(
        self, found: list[Group], before: Wiring, known: int
    ) -> None:
        """Plan each loop of a scope with the regions of the others in sight; where one of them is
        refused then, what was planned stays.
        """
        after, self.loops.beside = self.wiring.snapshot(), self.planned[known:]
        self.wiring.restore(before)
        firsts = [plan.loop.backwards[0] for plan in self.loops.beside]
        again = [one for one in found if one.backwards[0] in firsts]
        try:
            self.planned[known:] = [self._plan_loop(one) for one in again]
        except Refusal:
            self.wiring.restore(after)
        self.loops.beside = []

    def _decide(self, group: Group) -> LoopOutcome:
        scope, backwards = group.scope, group.backwards
        before = self.wiring.snapshot()
        try:
            plan = self._plan_loop(group)
            asked = self._asked_by(plan)
            refuse_alone(self.alone, backwards[0], asked)
            self.company |= dict.fromkeys(asked)
            self.planned.append(plan)
        except Refusal as refusal:
            self.wiring.restore(before)
            if refusal.reason == "already-amp" and self._completes(
                scope, backwards
            ):
                line = backwards[0].lineno
                return LoopOutcome(
                    line, scope.qualname, "migrated", None, halfdone.DONE
                )
            self.left += [] if isinstance(refusal, Skip) else [group]
            return self._refused(refusal, scope, backwards)
        return LoopOutcome(backwards[0].lineno, scope.qualname, "migrated")

    def _asked_by(self, plan: LoopPlan) -> list[str]:
        """Other files that may say something else of a loop than its own. Raises Refusal."""
        scope, steppers = plan.loop.scope, plan.loop.steppers
        steps = [step.call for one in steppers for step in one.steps]
        here = self.program, self.project
        return [
            *callers(scope, steps, *here),
            *makers(plan.wanted, *here),
            *files_that_may_switch(*here, scope),
            *files_with_switches(*here, scope),
            *self._files_with_models(plan),
        ]

    def _files_with_models(self, plan: LoopPlan) -> Iterable[str]:
        """Models and losses of which no code is found may be made in other files. Raises Refusal
        where their files do not parse.
        """
        own = ((plan.loop.scope, one) for one in plan.regions.regions)
        held = [(where, one.statements()) for where, one in (*own, *plan.above)]
        refuse_unparsed_imports(self.program, held)
        opened = open_calls(self.program, held)
        self.opened |= dict.fromkeys(opened)
        waiting = dict.fromkeys(waits_for(self.program, opened))
        return that_show(waiting, self.program, self.project)

    def _refused(
        self, refusal: Refusal, scope: Scope, backwards: list[ast.Call]
    ) -> LoopOutcome:
        line = backwards[0].lineno
        self.held_back |= bool(refusal.files)
        asked = company(refusal, scope, self.program, self.project)
        self.company |= dict.fromkeys(asked)
        refusal = told_alone(self.alone, refusal, asked)
        if isinstance(refusal, Skip):
            return LoopOutcome(
                line, scope.qualname, "skipped", refusal.reason, refusal.message
            )
        if refusal.unnamed:
            self.unnamed[scope.module.path, scope.qualname] = refusal.unnamed
        message = self._located(refusal, scope, line)
        return LoopOutcome(
            line, scope.qualname, "refused", refusal.reason, message
        )

    def _completes(self, scope: Scope, backwards: list[ast.Call]) -> bool:
        """Whether a loop that has a scaler lacks autocast, which is then planned."""
        blocked = self._blocked(scope, backwards[0])
        spelling = self.spellings.of(scope)
        found = (
            None
            if blocked
            else halfdone.completion(
                self.program, scope, backwards, self.settings, spelling
            )
        )
        self.completions += [found] if found is not None else []
        return found is not None

    def _located(self, refusal: Refusal, scope: Scope, line: int) -> str:
        file = self.program.module.file_of(refusal.node)
        if file is not None and file is not scope.module:
            place = place_of(self.program, refusal.node)
            said = refusal.message
            return said if f"({place})" in said else f"{place}: {said}"
        return (
            refusal.message
            if refusal.line == line
            else f"line {refusal.line}: {refusal.message}"
        )

    def _blocked(self, scope: Scope, backward: ast.Call) -> Refusal | None:
        if self.settings.leaves(scope.module.path, scope.qualname):
            return Skip("left-alone", backward, "--leave names this loop")
        return self.blocked.get(_key(scope, backward))

    # -- edits

    def _plan_loop(self, group: Group) -> LoopPlan:
        scope, backwards = group.scope, group.backwards
        if blocked := self._blocked(scope, backwards[0]):
            raise blocked
        try:
            with at_most(for_loop(self.program.module.text)):
                return self.loops.plan(group)
        except BudgetEndedError:
            raise Refusal("too-many-paths", backwards[0], _TOO_MUCH) from None

    def _collect(self, plans: dict[str, Plan]) -> None:
        own = [(loop, self.edits.of(loop)) for loop in self.planned]
        loops = dict.fromkeys(e for _, edits in own for e in edits)
        edits: dict[Edit, None] = {}
        if self.settings.dtype != "bfloat16":
            self.company |= dict.fromkeys(savers(self.program, self.project))
            checkpoints = Checkpoints(self.program, self.wiring)
            checkpoints.plan()
            self.company |= checkpoints.company
            option = self.switches.own
            if option is not None:
                option.edits.clear()  # loops that are refused need none
            made = [*self.wiring.scalers.constructions(), *self.wiring.edits]
            made += option.edits if option is not None else ()
            # First what makes the scaler, then what uses it: both may stand above one statement.
            edits.update(dict.fromkeys([*made, *loops, *checkpoints.edits]))
            for file, note in [*checkpoints.notes, *self._scaler_notes()]:
                plans[file.path].notes.append(note)
        for file, note in open_notes(self.program, self.opened):
            plans[file.path].notes.append(note)
        edits.update(loops)
        if self.settings.eval:
            edits.update(dict.fromkeys(self.edits.evaluation(self.planned)))
        for edit in joined(edits):
            where = place(edit)
            assert where is not None
            file, base = self.program.module.place(where)
            plans[file.path].edits.append(moved(edit, -base))
        asked = askers(self.program, self.wiring, own)
        for file in self.program.module.files:
            plan = plans[file.path]
            adds = self.spellings.imports_torch(file) and any(
                self._names_torch(e, file) for e in plan.edits
            )
            plan.edits += [AddImport("torch")] if adds else []
            scalers = {one.scaler for one in self.planned if one.scaler}
            plan.introduced = introduced(self.edits, scalers, plan.edits, file)
            plan.askers = asked.get(file.path, {})

    def _names_torch(self, edit: Edit, file: Module) -> bool:
        return f"{self.spellings.of(file.root).torch}." in repr(edit)

    def _scaler_notes(self) -> Iterator[tuple[Module, Note]]:
        """What a scaler changes for callers that pass none, and for guards."""
        yield from optional_notes(self.program, self.wiring)
        for one in self.planned:
            yield from finite_guards(one.loop)
            yield from caught_steps(one.loop)
            yield from unknown_steps(self.program, one.loop)
            yield from clipped_parts(self.program, one.loop)


def _key(scope: Scope, backward: ast.Call) -> tuple[str, str, int]:
    return scope.module.path, scope.qualname, backward.lineno


def planned(
    program: Program,
    settings: Settings,
    blocked: Blocked | None = None,
    project: Project | None = None,
    switches: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
    *,
    hold: bool = False,
    grows: bool = False,
    alone: Alone | None = None,
) -> tuple[Planner, dict[str, Plan]]:
    """The plans of a program, and who made them: as often anew as loops turn out to depend on
    loops that are left alone. Loops that need other files may only say so with `hold`, and are
    refused with `alone`; with `grows`, what they run asks for all of these at once: each time that
    some join, all is planned anew.
    """
    barred = dict(blocked or {})
    while True:
        planner = Planner(program, settings, barred, project, switches)
        planner.loops.asks_first = hold
        planner.loops.asks_for_all = grows
        planner.alone = alone
        plans = planner.plan()
        if not planner.conflicts.keys() - barred.keys():
            return planner, plans
        barred |= planner.conflicts
