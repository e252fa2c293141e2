"""Where a program breaks the protocol of the GradScaler, on a path that can happen."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from amp_migrate.model.budget import BudgetEndedError
from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.steps.owners import Owners
from amp_migrate.model.steps.recognition import Trait
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.protocol.aliases import aliases
from amp_migrate.protocol.broken import Mistake
from amp_migrate.protocol.calls import hooks_by_name
from amp_migrate.protocol.diagnostics import Diagnostics, Key
from amp_migrate.protocol.ends import Here
from amp_migrate.protocol.exploration import LIMIT, Explorer
from amp_migrate.protocol.foreign_code import after_unknown_call
from amp_migrate.protocol.frames import Frame
from amp_migrate.protocol.handlers import handle
from amp_migrate.protocol.inherited import called_last, changed
from amp_migrate.protocol.kept import Shown, doubts, kept, leaks
from amp_migrate.protocol.machine import OptimizerState, State
from amp_migrate.protocol.other_files import Elsewhere
from amp_migrate.protocol.participants import Participants
from amp_migrate.protocol.paths import Path, Val
from amp_migrate.protocol.surroundings import is_repeated, skips
from amp_migrate.protocol.tracking import Tracker
from amp_migrate.records import NamedTuple

_LEFT_OVER = frozenset({"unscale-each-micro-batch", "double-or-stray-update"})
"""Rules that a function without a caller in sight can break by being called again."""


class Answer(NamedTuple):
    """What the analysis of one program says."""

    mistakes: tuple[Mistake, ...] = ()
    complete: bool = True
    """Whether every path was followed within the budget."""
    doubts: tuple[Mistake, ...] = ()
    """Mistakes on paths that were joined, and may not happen."""
    leaks: tuple[Mistake, ...] = ()
    """Plain steps that scaled gradients may reach."""


class Analysis:
    """Runs the state machine over the paths of every scope that uses a scaler."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.events = program.events
        self.explorer = Explorer(self.events, self)
        self.diagnostics = Diagnostics(Elsewhere(program))
        self.tracker: Tracker | None = None
        """None during the first run over a scope, which only collects the participants."""
        self.participants = Participants(program, Owners(program))
        self._shown = Shown()

    def run(self) -> Answer:
        """All mistakes, in source order, and whether every path was followed."""
        known: dict[Key, Mistake] = {}
        try:
            for scope in self._roots():
                known = dict(self.diagnostics.found)
                if scope.node not in self._unordered and (
                    scope.node not in self.explorer.entered
                    or self._is_called_from_afar(scope)
                ):
                    self._explore(scope)
        except (BudgetEndedError, RecursionError):
            self.diagnostics.found = known
            self._shown.is_partial = True
        else:
            self._as_heirs()
        mistakes = sorted(
            kept(self.diagnostics, self._shown),
            key=lambda m: (m.node.lineno, m.node.col_offset, m.rule),
        )
        return Answer(
            tuple(mistakes),
            not self._shown.is_partial,
            tuple(doubts(self.diagnostics)),
            tuple(leaks(self.diagnostics)),
        )

    def _as_heirs(self) -> None:
        """Run the methods of base classes once more for each heir that puts others in the place of
        what they call; where that takes too long, what is known stays.
        """
        entered, dispatch = self.explorer.entered, self.explorer.dispatch
        known, roots = dict(self.diagnostics.found), self._roots()
        try:
            for heir in self.program.graph.classes():
                dispatch.acting, self.explorer.entered = heir, set()
                for scope in changed(self.explorer, heir, roots):
                    known = dict(self.diagnostics.found)
                    if scope.node not in self.explorer.entered:
                        self._explore(scope)
        except (BudgetEndedError, RecursionError):
            self.diagnostics.found = known
        finally:
            dispatch.acting, self.explorer.entered = None, entered

    def _explore(self, scope: Scope) -> None:
        """Run one scope twice: to learn who is who, then with the state machine."""
        self.participants = Participants(self.program, Owners(self.program))
        self.diagnostics.participants = self.participants
        self.tracker = None
        self.explorer.begin(limit=8, turns=1, tracks=False, optimizers=())
        self.explorer.block(scope.body, [self._begun(scope)], Frame(scope))
        if not self.participants.exprs:
            return
        tracker = Tracker(
            self.participants, self.diagnostics, self.explorer.evaluation
        )
        self.tracker = tracker
        optimizers = tuple(self.participants.owners.optimizers)
        several = len(optimizers) > 1
        self.explorer.begin(
            limit=LIMIT, turns=2, tracks=several, optimizers=optimizers
        )
        start = self._entered(scope, tracker)
        ends = self.explorer.block(scope.body, [start], Frame(scope))
        leaving = [*ends.next, *ends.returns]
        self._left(scope, leaving, tracker)
        if self._is_turn(scope):
            self._again(scope, leaving)
        self._shown.fed |= tracker.fed
        self._shown.due |= tracker.due
        self._shown.is_partial |= self.explorer.dropped

    def _is_turn(self, scope: Scope) -> bool:
        """Whether a function out of sight calls this one in a loop: it holds a whole cycle of
        backward, step and update, none of which is in a loop.
        """
        seen = self.participants
        if not isinstance(scope.node, FUNCTIONS) or not (
            seen.backwards and seen.steps
        ):
            return False
        updates = [
            loops for held in seen.updates.values() for loops in held.values()
        ]
        is_cycle = bool(updates) and not any(updates)
        return is_cycle and not is_repeated(self.events, scope.node, set())

    def _again(self, scope: Scope, paths: list[Path]) -> None:
        """Run a function once more behind itself, for what one call leaves to the next."""
        left = self.explorer.calls.summaries.left
        starts = [left(scope.qualname, path).fork() for path in paths]
        for path in starts:
            path.env |= self._begun(scope).env
        self.diagnostics.only = _LEFT_OVER
        try:
            self.explorer.block(scope.body, starts, Frame(scope))
        finally:
            self.diagnostics.only = None

    # -- the listener

    def on(self, here: Here) -> list[Path]:
        """Follow an event, or a call of code out of sight."""
        node, path, frame = here
        kind = self.events.what(node, frame.scope)
        tracker = self.tracker
        if kind is None or kind is EventKind.SCALE:
            if tracker is None and kind is not None:
                self.participants.note(kind, here)
            elif (
                tracker is not None
                and kind is None
                and isinstance(node, ast.Call)
            ):
                path = after_unknown_call(
                    self.participants, node, here, tracker.evaluation
                )
            return [path]
        here = here._replace(path=path.fork())
        if tracker is None:
            self.participants.note(kind, here)
        elif path.amp is not False:
            self.diagnostics.loops[node] = frame.loops
            handle(kind, tracker, here)
        return [here.path]

    def left(self, statement: ast.stmt, path: Path) -> None:
        """Remember exits between unscale_ and update; the last statement of a function that only
        clips is none.
        """
        for scaler, state in path.scalers.items():
            waits = any(
                held.stage == "unscaled" for _, held in state.optimizers
            )
            if waits and skips(self.events, statement):
                path.marks.setdefault(("left", scaler), (statement,))

    # -- where a scope begins and ends

    def _begun(self, scope: Scope) -> Path:
        """A path at the head of a scope, which knows what is one thing under two names."""
        path = Path()
        for name, same in aliases(self.program, scope):
            path.env[name] = Val(text=same)
        return path

    def _entered(self, scope: Scope, tracker: Tracker) -> Path:
        """What holds where a function begins: one that only unscales and steps gets scaled
        gradients from its callers.
        """
        path, seen = self._begun(scope), self.participants
        if seen.backwards or not isinstance(scope.node, FUNCTIONS):
            return path
        held = OptimizerState(gradients=frozenset({"scaled"}))
        pairs = seen.pairs
        if (
            not pairs and not self._steps_anywhere
        ):  # it updates, so what it steps with is scaled
            pairs = {
                scaler: set(seen.owners.optimizers) for scaler in seen.updates
            }
        for scaler, names in pairs.items():
            path.scalers[scaler] = State(has_scale=True)
            for name in names:
                tracker.hold(scaler, name, held, path)
                tracker.fed.add(name)
        seen.given = scope.node
        return path

    def _left(self, scope: Scope, paths: list[Path], tracker: Tracker) -> None:
        """A function that steps and never updates, where no file of the project does it behind the
        call.
        """
        if not isinstance(scope.node, FUNCTIONS):
            return
        rule = "missing-scaler-update"
        for path in (path for path in paths if path.amp is not False):
            for scaler, name in _stepped(path):
                steps = path.marks.get(("step", scaler, name), ())
                if steps and tracker.follows(scaler, name, path):
                    if self._is_updated(scaler):
                        continue
                    if not self.diagnostics.elsewhere.may_update(scope.node):
                        self.diagnostics.report(rule, steps, path)

    def _is_updated(self, scaler: str) -> bool:
        """Whether the module updates a scaler, by this or another name; an update of another one
        that the same function steps with is none.
        """
        others = [
            ast.unparse(expr)
            for name, expr in self.participants.exprs.items()
            if name != scaler and self.participants.pairs.get(name)
        ]
        return any(one not in others for one in self._updated)

    @cached_property
    def _updated(self) -> list[str]:
        """What is updated in the module: scalers, and anything that is called so."""
        text = self.program.module.text
        found = re.findall(r"(?i)([\w.]*scal\w*)\s*\.\s*update\(", text)
        return found + [
            ast.unparse(call.func.value)
            for call, _ in self._events(EventKind.UPDATE)
            if isinstance(call.func, ast.Attribute)
        ]

    @cached_property
    def _steps_anywhere(self) -> bool:
        """Whether a scaler steps in the module, or is not torch's own."""
        text = self.program.module.text
        by_name = re.search(r"(?i)scal\w*\s*\.\s*step\(", text)
        return (
            "GradScaler" not in text
            or bool(by_name)
            or bool(self._events(EventKind.SCALER_STEP))
        )

    def _events(self, kind: EventKind) -> list[tuple[ast.Call, Scope]]:
        return [
            (call, scope)
            for scope in self.program.module.scopes.values()
            for call in scope.calls
            if self.events.what(call, scope) is kind
        ]

    @cached_property
    def _unordered(self) -> set[ast.AST]:
        """Methods that are run by one name, several of which take part in the step: nobody knows
        what the others have done before.
        """
        found: set[ast.AST] = set()
        for scope in self.program.module.scopes.values():
            for call in scope.calls:
                if self.events.what(call, scope) is None:
                    for methods in hooks_by_name(self.events, call, scope):
                        found.update(methods if len(methods) > 1 else ())
        return found

    def _roots(self) -> list[Scope]:
        """Scopes to start from: those that nobody in sight calls come first, so that the others
        are met in context.
        """
        scopes = [
            s
            for s in self.program.module.scopes.values()
            if not isinstance(s.node, (ast.ClassDef, ast.Lambda))
            and self._uses(s)
        ]
        return called_last(self.program, scopes)

    def _is_called_from_afar(self, scope: Scope) -> bool:
        """Whether other files alone call it: what these hand over may be lost on the way, so it is
        followed by itself as well. What they show to be right counts all the same.
        """
        if len(self.program.module.files) == 1 or not isinstance(
            scope.node, FUNCTIONS
        ):
            return False
        sites = self.program.graph.sites(scope.node)
        return bool(sites) and all(
            site.scope.module is not scope.module for site in sites
        )

    def _uses(self, scope: Scope) -> bool:
        node = scope.node
        if isinstance(node, FUNCTIONS):
            return bool(
                self.events.of_function(node) & (Trait.SCALER | Trait.PLAIN)
            )
        return bool(self.events.of_block(scope.body, scope) & Trait.SCALER)


def _stepped(path: Path) -> list[tuple[str, str]]:
    return [
        (scaler, name)
        for scaler, state in path.scalers.items()
        for name, held in state.optimizers
        if held.stage == "stepped"
    ]


def answer(program: Program) -> Answer:
    """The broken rules of the scaler's protocol in a program, computed once and kept with it."""
    uses = "caler" in program.module.text or ".scale(" in program.module.text
    return program.remembered(
        "protocol", lambda: Analysis(program).run() if uses else Answer()
    )


def explored(program: Program) -> bool:
    """Whether all paths were followed, where that was asked."""
    return not program.remembers("protocol") or answer(program).complete


def mistakes(program: Program) -> list[Mistake]:
    """The mistakes that are sure."""
    return list(answer(program).mistakes)
