"""An option of the program's own that turns AMP on and off while it runs (`--switch NAME`)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from amp_migrate.config import Option
from amp_migrate.model.program import Program
from amp_migrate.model.settings.click_options import click_names
from amp_migrate.model.settings.configurations import (
    Configuration,
    configurations,
    has_option,
    last_field,
    reads_option,
)
from amp_migrate.model.settings.seen_whole import is_seen_whole
from amp_migrate.model.syntax.module import FUNCTIONS, Module, Scope
from amp_migrate.planner.refusal import Refusal
from amp_migrate.rewrite.edits import (
    AddDecorator,
    AddDictEntry,
    AddParameter,
    Edit,
    InsertAfter,
    Template,
    moved,
    place,
)
from amp_migrate.rewrite.proof.facts import Declared
from amp_migrate.torch_facts.amp_api import SWITCH_VALUES


@dataclass
class OwnSwitch:
    """Where the option can be read, and the edits that declare it. Grows while loops are
    planned.
    """

    program: Program
    option: Option
    edits: dict[Edit, None] = field(default_factory=dict)

    def text(self, scope: Scope, at: ast.stmt) -> str:
        """How the option is read at `at`. Raises Refusal where no configuration is in reach."""
        found = self.found(scope, at)
        if found is None:
            raise self._refused(scope, at)
        self.edits |= dict.fromkeys(self._declared(found))
        return self._read(found)

    def found(self, scope: Scope, at: ast.stmt) -> Configuration | None:
        """The configuration that gets the option, where `at` can read one."""
        for one in configurations(self.program, scope, at):
            taken = self._is_taken(one)
            if not taken and not is_seen_whole(self.program, one):
                return one
        return None

    def _is_taken(self, one: Configuration) -> bool:
        name = self.option.name
        return has_option(self.program, one, name) or reads_option(
            self.program, one, name
        )

    def _refused(self, scope: Scope, at: ast.stmt) -> Refusal:
        name = self.option.name
        near = list(configurations(self.program, scope, at))
        if any(map(self._is_taken, near)):
            why = (
                f"the program has an option `{name}` already, or reads one: give --switch "
                "another name"
            )
        elif near:
            held = near[0].holder or getattr(near[0].home, "name", "")
            why = (
                f"`{held}` is handed on as a whole (`**`), or gone through, and --switch would "
                "add an option to it that what takes it does not know"
            )
        else:
            why = (
                "no configuration can be read here that --switch could add an option to "
                "(argparse, click, a dataclass, or a dict of constants)"
            )
        return Refusal("switch-out-of-reach", at, why, above=not near)

    def _read(self, found: Configuration) -> str:
        if found.kind == "click":
            return self.option.name
        if found.kind == "dict":
            return f'{found.holder}["{self.option.name}"]'
        return f"{found.holder}.{self.option.name}"

    def _declared(self, found: Configuration) -> list[Edit]:
        home = found.home
        span = self.program.module.span
        name, default = self.option.name, f'"{self.option.default}"'
        if found.kind == "dict":
            return [AddDictEntry(span(home), f'"{name}"', default)]
        if isinstance(home, ast.ClassDef):
            return [
                InsertAfter(
                    span(last_field(home)),
                    (Template(f"{name}: str = {default}"),),
                )
            ]
        values = ", ".join(f'"{value}"' for value in SWITCH_VALUES)
        flag = f'"--{name.replace("_", "-")}", default={default}'
        if isinstance(home, FUNCTIONS):
            option, choice = click_names(self.program, home) or ("", "")
            mark = f"{option}({flag}, type={choice}([{values}]))"
            return [
                AddDecorator(span(home), mark),
                AddParameter(span(home), name, default),
            ]
        line = f"{found.parser}.add_argument({flag}, choices=[{values}])"
        return [InsertAfter(span(home), (Template(line),))]

    def declared(self, edits: Iterable[Edit], file: Module) -> Declared | None:
        """What the edits of one file declare."""
        mine = set(map(repr, self._within(file)))
        found = [edit for edit in edits if repr(edit) in mine]
        if not found:
            return None
        lines = (
            t.text
            for e in found
            if isinstance(e, InsertAfter)
            for t in e.statements
        )
        marks = (edit.text for edit in found if isinstance(edit, AddDecorator))
        return Declared(*self.option, frozenset(lines), frozenset(marks))

    def _within(self, file: Module) -> Iterator[Edit]:
        """The edits of a file, by their places in it."""
        for edit in self.edits:
            where = place(edit)
            home, base = (
                self.program.module.place(where)
                if where is not None
                else (None, 0)
            )
            if home is file:
                yield moved(edit, -base)
