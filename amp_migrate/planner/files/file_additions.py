"""What a file gets beside the edits of its loops: the regions of half-done loops, the decorators of
custom autograd functions, the settings of frameworks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module
from amp_migrate.planner.files.file_plan import Plan
from amp_migrate.planner.half_done import Completion
from amp_migrate.planner.half_safety.autograd_functions import Custom, functions
from amp_migrate.planner.half_safety.cast_edits import casts_in
from amp_migrate.planner.half_safety.custom_functions import decorations
from amp_migrate.planner.loop_edits import LoopEdits, LoopPlan
from amp_migrate.planner.preconditions.frameworks import switched
from amp_migrate.rewrite.edits import AddImport, Edit, moved, place


class FileAdditions:
    """Adds them to the plans of the files of one program."""

    def __init__(
        self, program: Program, settings: Settings, edits: LoopEdits
    ) -> None:
        self.program = program
        self.settings = settings
        self.edits = edits
        self.spellings = edits.spellings

    def switch_frameworks(self, plan: Plan, file: Module) -> None:
        """With `--unsafe`, the settings of frameworks that are literals in the code."""
        torch = self.spellings.of(file.root).torch
        for one in switched(self.program, file, self.settings, torch):
            names_torch = any(
                f"{torch}." in change.new for change in one.changes
            )
            self._add(plan, file, one.edits, names_torch)
            known = plan.introduced.settings | frozenset(one.changes)
            plan.introduced = replace(plan.introduced, settings=known)

    def complete(
        self, plan: Plan, file: Module, completions: list[Completion]
    ) -> None:
        """The regions of the file's half-done loops."""
        done = [c for c in completions if c.scope.module is file]
        regions = [
            self.edits.wrap(region, c.header)
            for c in done
            for region in c.regions
        ]
        casts = list(dict.fromkeys(cast for c in done for cast in c.casts))
        self._add(plan, file, [*regions, *casts], bool(done))
        known = plan.introduced.regions or frozenset()
        plan.introduced = replace(
            plan.introduced,
            regions=known | {c.header for c in done},
            float_casts=plan.introduced.float_casts + sum(map(casts_in, casts)),
        )

    def decorate(
        self, plan: Plan, file: Module, planned: list[LoopPlan]
    ) -> None:
        """The custom autograd functions of a program in which autocast is new, or already is."""
        alone = len(self.program.module.files) == 1
        if self.edits.switches.use.other or alone and not plan.edits:
            return
        wanted = self._functions(file, planned)
        spelling = self.spellings.of(file.root)
        device = self.edits.switches.named_device
        found = list(decorations(self.program, wanted, spelling, device))
        if found:
            self._add(plan, file, (one.edit for one in found), True)
            decorators = frozenset(one.decorator for one in found)
            plan.introduced = replace(plan.introduced, decorators=decorators)

    def _add(
        self, plan: Plan, file: Module, edits: Iterable[Edit], names_torch: bool
    ) -> None:
        """Add edits, and the import of torch where they name it and the file does not."""
        adds = names_torch and self.spellings.imports_torch(file)
        is_new = adds and AddImport("torch") not in plan.edits
        plan.edits += self._own(edits)
        plan.edits += [AddImport("torch")] if is_new else []
        plan.introduced = replace(
            plan.introduced,
            imports_torch=plan.introduced.imports_torch or adds,
            torch=self.spellings.of(file.root).torch,
        )

    def _functions(self, file: Module, planned: list[LoopPlan]) -> list[Custom]:
        """Those of the only file; of several files, those that the regions run."""
        if len(self.program.module.files) == 1:
            return list(functions(self.program))
        reached = [one for loop in planned for one in loop.functions]
        home = self.program.module.scope_of
        return [
            one
            for one in dict.fromkeys(reached)
            if home(one.node).module is file
        ]

    def _own(self, edits: Iterable[Edit]) -> list[Edit]:
        """Edits of one file, by their places in it."""
        base = self.program.module.place
        return [
            moved(edit, -base(where)[1])
            if (where := place(edit)) is not None
            else edit
            for edit in edits
        ]
