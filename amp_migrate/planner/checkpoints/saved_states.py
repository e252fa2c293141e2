"""Saving and restoring the scaler beside the optimizer (amp-semantics section 3, checkpoints)."""

from __future__ import annotations

import ast
from pathlib import Path

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.checkpoints.forms import is_only_read
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.steps.whole_optimizers import saved_whole
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.outcome import Note
from amp_migrate.planner.checkpoints.entries import (
    KEY,
    Entry,
    entry_of,
    is_text,
    loaded_alone,
    saved_apart,
)
from amp_migrate.planner.checkpoints.optional_states import StateUse, settled
from amp_migrate.planner.checkpoints.order import made_later
from amp_migrate.planner.checkpoints.readers import reader_in_project, told
from amp_migrate.planner.files.related_files import file_of_saver
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.scaler_placement.optional import is_idle
from amp_migrate.planner.scaler_placement.placement import Wiring
from amp_migrate.rewrite.edits import (
    Edit,
    InsertAfter,
    Template,
)

_LEFT = "so its state is not saved or loaded here"


class Checkpoints:
    """Finds where optimizer state is saved and loaded in one module."""

    def __init__(self, program: Program, wiring: Wiring) -> None:
        self.program = program
        self.wiring = wiring
        self.edits: list[Edit] = []
        self.uses: list[StateUse] = []
        self.done: list[ast.Call] = []
        self.left: list[ast.Call] = []
        """States of optimizers, saved or loaded, that the scaler's goes beside, and the others."""
        self.unsure: list[ast.Call] = []
        """Those of optimizers that a migrated loop may step by another name."""
        self.notes: list[tuple[Module, Note]] = []
        self.company: dict[str, None] = {}
        """Other files in whose company the scaler's state might be saved."""

    def plan(self) -> None:
        """Collect edits and notes for every scope."""
        before = self.wiring.snapshot()
        self._collect()
        self.edits = settled(self.uses, self.wiring)
        saved, loaded = (
            self._kinds(one) for one in ("state_dict", "load_state_dict")
        )
        if (
            saved == {"left"}
            and "done" in loaded
            or loaded == {"left"}
            and "done" in saved
        ):
            self.wiring.restore(before)
            self.edits = []
            done, other = (
                ("saved", "loaded")
                if loaded == {"left"}
                else ("loaded", "saved")
            )
            what = f"the scaler's state is not {done} here, for it would not be {other}"
            for call in self.done:
                self._note(
                    call, f"{what}: save and load it beside the optimizer's"
                )

    def _kinds(self, method: str) -> set[str]:
        calls = [("done", one) for one in self.done] + [
            ("left", one) for one in self.left
        ]
        found = {kind for kind, one in calls if _method(one) == method}
        is_unsure = any(_method(one) == method for one in self.unsure)
        return found or ({"left"} if is_unsure else set())

    def _collect(self) -> None:
        for scope in list(self.program.module.scopes.values()):
            for call in scope.calls:
                self._in_other_file(call, scope)
                if not isinstance(
                    call.func, ast.Attribute
                ) or not self.program.effects.is_optimizer(
                    call.func.value, scope
                ):
                    continue
                if is_only_read(self.program, call):
                    continue
                if call.func.attr in ("state_dict", "load_state_dict"):
                    ways = {
                        "state_dict": self._saved,
                        "load_state_dict": self._loaded,
                    }
                    is_done = ways[call.func.attr](call, scope)
                    if is_done or self.wiring.steps_root(
                        call.func.value, scope
                    ):
                        (self.done if is_done else self.left).append(call)
                    else:
                        self.unsure.append(call)

        for whole in saved_whole(self.program):
            if self.wiring.steps_root(
                whole, self.program.module.scope_of(whole)
            ):
                self._note(
                    whole,
                    "the optimizer itself is saved here: save the scaler's state beside it, and "
                    "load that where the optimizer is loaded",
                )

    def _in_other_file(self, call: ast.Call, scope: Scope) -> None:
        """A function that is handed the optimizer, in a file that is not planned with this one."""
        given = [*call.args, *(one.value for one in call.keywords)]
        named = [
            one for one in given if isinstance(one, (ast.Name, ast.Attribute))
        ]
        if not any(
            self.program.effects.is_optimizer(one, scope)
            and self.wiring.steps_root(one, scope)
            for one in named
        ):
            return
        for file in file_of_saver(self.program, call, scope):
            self._note(
                call,
                f"`{ast.unparse(call.func)}` saves or loads the optimizer's state in "
                f"{Path(file).name}: do the same for the scaler's state there",
            )
            return
        if any(self._takes_any(call, one, scope) for one in named):
            what = f"`{ast.unparse(call.func)}` saves or loads the optimizer's state"
            self._note(call, f"{what}: give it the scaler, too")

    def _takes_any(self, call: ast.Call, given: ast.expr, scope: Scope) -> bool:
        """`save(path, model=model, optimizer=optimizer)` of a function that saves or loads
        whatever `**objects` it is given.
        """
        function = self.program.values.callee(call, scope)
        inner = self.program.scope(function) if function is not None else None
        if inner is None or not self.program.effects.is_optimizer(given, scope):
            return False
        names = [one.arg for one in inner.parameters()]
        bound = inner.takes_receiver
        if any(argument(call, inner, name, bound) is given for name in names):
            return False
        states = ("state_dict", "load_state_dict")
        return any(
            isinstance(c.func, ast.Attribute) and c.func.attr in states
            for c in inner.calls
        )

    def _scaler(self, call: ast.Call, scope: Scope) -> str | None:
        """The scaler's name here, if the optimizer's scaler exists and can be reached."""
        assert isinstance(call.func, ast.Attribute)
        if not self.wiring.steps_root(call.func.value, scope):
            return None  # an optimizer of a loop that was not migrated
        if own := self.wiring.scalers.own(scope):
            return own
        if holder := self.wiring.scalers.holder_made_in(scope):
            return self._of_object(call, scope, holder)
        before = self.wiring.snapshot()
        try:
            name = self.wiring.provide([call.func.value], scope, [])
        except Refusal as refusal:
            self.wiring.restore(before)
            self.company |= dict.fromkeys(refusal.files)
            self._note(
                call,
                f"the scaler's state is not saved or loaded here: {refusal.message}",
            )
            return None
        if set(self.wiring.scalers.homes) - set(before.scalers.homes):
            self.wiring.restore(before)
            self._note(call, self._out_of_reach())
            return None
        made = self.wiring.optional.get(id(scope.node))
        if is_idle(self.program, made, self.wiring.edits):
            self.wiring.restore(before)
            return None
        places = self.wiring.scalers.places(scope)
        late = made_later(self.program, call, scope, places)
        if late is not None:
            self.wiring.restore(before)
            self._note(call, late)
            return None
        self.wiring.scalers.homes = (
            before.scalers.homes
        )  # places of constructions are the loops' to choose
        return name

    def _out_of_reach(self) -> str:
        """Where the scalers are that a scope does not see."""
        homes = list(self.wiring.scalers.homes)
        owners = [self.program.graph.class_around(one.scope) for one in homes]
        first = owners[0] if owners else None
        if first is None or not homes[0].attribute or len({*owners}) > 1:
            return f"the scaler lives in the function that trains, {_LEFT}"
        name = f"{homes[0].attribute}.{self.wiring.name}"
        return f"the scaler is `{name}` of `{first.name}`, {_LEFT}"

    def _of_object(
        self, call: ast.Call, scope: Scope, holder: str
    ) -> str | None:
        """`self.scaler` of a method that gets the optimizer and makes the scaler beside where it
        keeps it; what is loaded before that would go to no scaler.
        """
        own = self.wiring.scalers.places(scope)
        block = getattr(scope.node, "body", [])
        if all(
            one in block and (one.end_lineno or 0) < call.lineno
            for _, one, _ in own
        ):
            return f"{holder}.{self.wiring.name}"
        self._note(
            call,
            "the scaler is made after this, so its state is not saved or loaded here: keep the "
            "optimizer before its state is loaded",
        )
        return None

    def _would_scale(self, call: ast.Call, scope: Scope) -> bool:
        """Whether there is a scaler to tell of; it is not passed on to where only a note
        is given.
        """
        before = self.wiring.snapshot()
        found = self._scaler(call, scope) is not None
        self.wiring.restore(before)
        return found

    def _saved(self, call: ast.Call, scope: Scope) -> bool:
        """Whether the scaler's state is saved in the same dict."""
        entry = entry_of(self.program, call)
        if entry is not None:
            return self._saved_in(call, entry, scope)
        if self._would_scale(call, scope):
            self._note(call, saved_apart(self.program, call))
        return False

    def _saved_in(self, call: ast.Call, entry: Entry, scope: Scope) -> bool:
        if entry.has_key(self.program):
            self._note(
                call,
                (
                    f'this checkpoint already has a "{KEY}" entry: save the scaler\'s state under '
                    "another key"
                ),
            )
            return False
        reader = (
            reader_in_project(self.program, self.wiring.project, entry.made)
            if self._would_scale(call, scope)
            else None
        )
        if reader is not None:
            self._note(
                call,
                f"the scaler's state is not saved here: {told(reader, scope)}",
            )
            return False
        name = self._scaler(call, scope)
        if name is None:
            return False
        state = f"{name}.state_dict()"
        asking = f"{state} if {name} is not None else None"
        plain, asked = (
            entry.edit(self.program, one) for one in (state, asking)
        )
        self._use_once(StateUse(scope, plain, asked))
        return True

    def _use_once(self, use: StateUse) -> None:
        """Once, where several optimizers are saved to or loaded from one dict."""
        same = (
            one.plain.statements == use.plain.statements
            for one in self.uses
            if one.scope is use.scope
            and isinstance(one.plain, InsertAfter)
            and isinstance(use.plain, InsertAfter)
        )
        if not any(same):
            self.uses.append(use)

    def _loaded(self, call: ast.Call, scope: Scope) -> bool:
        """Whether the scaler's state is loaded from the same dict."""
        statement = self.program.module.statement_of(call)
        named = (k.value for k in call.keywords if k.arg == "state_dict")
        given = call.args[0] if call.args else next(named, None)
        if not isinstance(statement, ast.Expr) or statement.value is not call:
            return False
        if given is None:
            return False
        text = self._dict_of(given, scope)
        if text is None and self._would_scale(call, scope):
            self._note(call, loaded_alone(given))
        name = self._scaler(call, scope) if text is not None else None
        if name is None:
            return False
        assert isinstance(given, ast.Subscript)
        source = self.program.module.source(given.slice)
        key = f"'{KEY}'" if source.startswith("'") else f'"{KEY}"'
        plain, asked = (
            self._load(
                statement,
                f"if {test}{text}.get({key}):\n    {name}.load_state_dict({text}[{key}])",
            )
            for test in ("", f"{name} is not None and ")
        )
        self._use_once(StateUse(scope, plain, asked))
        return True

    def _dict_of(self, given: ast.expr, scope: Scope) -> str | None:
        """`checkpoint` of `checkpoint["optimizer"]`, `states["optimizers"]` of an entry of that."""
        if not isinstance(given, ast.Subscript):
            return None
        if not is_text(given.slice, scope):
            return None
        holder = given.value
        while isinstance(holder, ast.Subscript) and is_text(
            holder.slice, scope
        ):
            holder = holder.value
        if dotted_name(holder) is None:
            return None
        return self.program.module.source(given.value)

    def _load(self, statement: ast.stmt, lines: str) -> InsertAfter:
        """Load behind the loads that follow a statement."""
        place = self._last_load(statement)
        return InsertAfter(self.program.module.span(place), (Template(lines),))

    def _last_load(self, statement: ast.stmt) -> ast.stmt:
        """The last of the `load_state_dict` statements that follow each other directly."""
        block = self.program.module.block_of(statement)
        place = next(i for i, s in enumerate(block) if s is statement)
        while place + 1 < len(block) and self._loads_optimizer(
            block[place + 1]
        ):
            place += 1
        return block[place]

    def _loads_optimizer(self, statement: ast.stmt) -> bool:
        call = statement.value if isinstance(statement, ast.Expr) else None
        named = (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "load_state_dict"
        )
        return (
            named
            and isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and self.program.effects.is_optimizer(
                call.func.value, self.program.module.scope_of(statement)
            )
        )

    def _note(self, node: ast.expr, message: str) -> None:
        file = self.program.module.scope_of(node).module
        self.notes.append(
            (
                file,
                Note(node.lineno, node.col_offset + 1, message, kind="to do"),
            )
        )


def _method(call: ast.Call) -> str:
    """`load_state_dict` of `optimizer.load_state_dict(state)`"""
    return getattr(call.func, "attr", "")
