"""Saving and restoring the scaler beside the optimizer (amp-semantics section 3, checkpoints)."""

from __future__ import annotations

import ast
from pathlib import Path

from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Module, Scope
from amp_migrate.outcome import Note
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.related_files import file_of_saver
from amp_migrate.planner.scaler_placement.placement import Wiring
from amp_migrate.rewrite.edits import AddArgument, AddDictEntry, Edit, InsertAfter, Template

KEY = "scaler"


class Checkpoints:
    """Finds where optimizer state is saved and loaded in one module."""

    def __init__(self, program: Program, wiring: Wiring) -> None:
        self.program = program
        self.wiring = wiring
        self.edits: list[Edit] = []
        self.notes: list[tuple[Module, Note]] = []
        self.company: dict[str, None] = {}
        """Other files in whose company the scaler's state might be saved."""

    def plan(self) -> None:
        """Collect edits and notes for every scope."""
        for scope in list(self.program.module.scopes.values()):
            for call in scope.calls:
                self._in_other_file(call, scope)
                if not isinstance(
                    call.func, ast.Attribute
                ) or not self.program.effects.is_optimizer(call.func.value, scope):
                    continue
                if call.func.attr == "state_dict":
                    self._saved(call, scope)
                elif call.func.attr == "load_state_dict":
                    self._loaded(call, scope)

    def _in_other_file(self, call: ast.Call, scope: Scope) -> None:
        """A function that is handed the optimizer, in a file that is not planned with this one."""
        given = [*call.args, *(one.value for one in call.keywords)]
        named = [one for one in given if isinstance(one, (ast.Name, ast.Attribute))]
        if not any(
            self.program.effects.is_optimizer(one, scope) and self.wiring.steps_root(one, scope)
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

    def _scaler(self, call: ast.Call, scope: Scope) -> str | None:
        """The scaler's name here, if the optimizer's scaler exists and can be reached."""
        assert isinstance(call.func, ast.Attribute)
        if not self.wiring.steps_root(call.func.value, scope):
            return None  # an optimizer of a loop that was not migrated
        if own := self.wiring.own(scope):
            return own
        before = self.wiring.snapshot()
        try:
            name = self.wiring.provide([call.func.value], scope, [])
        except Refusal as refusal:
            self.wiring.restore(before)
            self.company |= dict.fromkeys(refusal.files)
            self._note(call, f"the scaler's state is not saved or loaded here: {refusal.message}")
            return None
        if set(self.wiring.homes) - set(before.homes):
            self.wiring.restore(before)
            self._note(
                call,
                (
                    "the scaler lives in the function that trains, so its state is not saved or "
                    "loaded here"
                ),
            )
            return None
        self.wiring.homes = before.homes  # places of constructions are the loops' to choose
        return name

    def _would_scale(self, call: ast.Call, scope: Scope) -> bool:
        """Whether there is a scaler to tell of; it is not passed on to where only a note
        is given.
        """
        before = self.wiring.snapshot()
        found = self._scaler(call, scope) is not None
        self.wiring.restore(before)
        return found

    def _saved(self, call: ast.Call, scope: Scope) -> None:
        parent = self.program.module.parents[call]
        if isinstance(parent, ast.Dict):
            self._saved_in_display(call, parent, scope)
        elif isinstance(parent, ast.keyword) and isinstance(
            holder := self.program.module.parents[parent], ast.Call
        ):
            if isinstance(holder.func, ast.Name) and holder.func.id == "dict":
                name = self._scaler(call, scope)
                if name is not None:
                    self.edits.append(
                        AddArgument(self.program.module.span(holder), KEY, f"{name}.state_dict()")
                    )
        elif self._would_scale(call, scope):
            self._note(
                call, "the optimizer's state is saved by itself: save the scaler's state beside it"
            )

    def _saved_in_display(self, call: ast.Call, display: ast.Dict, scope: Scope) -> None:
        if any(isinstance(k, ast.Constant) and k.value == KEY for k in display.keys):
            self._note(
                call,
                (
                    f'this checkpoint already has a "{KEY}" entry: save the scaler\'s state under '
                    "another key"
                ),
            )
            return
        name = self._scaler(call, scope)
        if name is not None:
            edit = AddDictEntry(
                self.program.module.span(display), f'"{KEY}"', f"{name}.state_dict()"
            )
            if edit not in self.edits:
                self.edits.append(edit)

    def _loaded(self, call: ast.Call, scope: Scope) -> None:
        statement = self.program.module.statement_of(call)
        given = call.args[0] if call.args else None
        if not isinstance(statement, ast.Expr) or statement.value is not call or given is None:
            return
        text = (
            dotted_name(given.value)
            if isinstance(given, ast.Subscript) and _is_text(given.slice, scope)
            else None
        )
        if text is None:
            if self._would_scale(call, scope):
                self._note(
                    call,
                    "the optimizer's state is loaded by itself: load the scaler's state beside it",
                )
            return
        name = self._scaler(call, scope)
        if name is None:
            return
        assert isinstance(given, ast.Subscript)
        key = f"'{KEY}'" if self.program.module.source(given.slice).startswith("'") else f'"{KEY}"'
        lines = f"if {text}.get({key}):\n    {name}.load_state_dict({text}[{key}])"
        place = self._last_load(statement)
        edit = InsertAfter(self.program.module.span(place), (Template(lines),))
        if not any(
            isinstance(e, InsertAfter) and e.statements == edit.statements for e in self.edits
        ):
            self.edits.append(edit)

    def _last_load(self, statement: ast.stmt) -> ast.stmt:
        """The last of the `load_state_dict` statements that follow each other directly."""
        block = self.program.module.block_of(statement)
        place = next(i for i, s in enumerate(block) if s is statement)
        while place + 1 < len(block) and self._loads_optimizer(block[place + 1]):
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
        self.notes.append((file, Note(node.lineno, node.col_offset + 1, message, kind="to do")))


def _is_text(key: ast.expr, scope: Scope) -> bool:
    """A string, or a parameter that is one unless it is given: `states[1]` is an element of a
    list, which has no `get`.
    """
    if isinstance(key, ast.Name) and isinstance(scope.node, FUNCTIONS):
        own = scope.node.args
        pairs = [
            *zip(reversed([*own.posonlyargs, *own.args]), reversed(own.defaults), strict=False),
            *zip(own.kwonlyargs, own.kw_defaults, strict=True),
        ]
        found = next((default for arg, default in pairs if arg.arg == key.id), None)
        return found is not None and _is_text(found, scope)
    return isinstance(key, ast.Constant) and isinstance(key.value, str)
