"""The classes that a text may name: `import_class(cfg.model)` imports the module and looks up the
class, and only a settings file, or the one who starts the program, knows both.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.kinds import Kind
from amp_migrate.model.names import dotted_name
from amp_migrate.project import nearby

if TYPE_CHECKING:
    from amp_migrate.model.neighbours import Definition, Neighbours
    from amp_migrate.model.program import Program

_IMPORTERS = ("import_module", "__import__")
_CLASS = re.compile(rb"\b(?:[A-Za-z_]\w*\.)+[A-Z]\w*\b")
_MOST = 64


def imports_by_text(program: Program) -> bool:
    """Whether a function of a file imports a module whose name is no constant."""

    def found() -> bool:
        if not any(one in program.module.text for one in _IMPORTERS):
            return False
        calls = (
            call
            for scope in program.module.scopes.values()
            for call in scope.calls
        )
        return any(
            (dotted_name(call.func) or "").rpartition(".")[2] in _IMPORTERS
            and bool(call.args)
            and not isinstance(call.args[0], ast.Constant)
            for call in calls
        )

    return program.remembered(imports_by_text, found)


def classes_by_text(near: Neighbours) -> Iterator[Definition]:
    """Those that settings files of the tree name; where none does, the models of its files that no
    other class there is made of.
    """
    named = {
        one.decode()
        for root in near.roots()
        for text in nearby.settings_below(root)
        for one in _CLASS.findall(text)
    }
    told = (near.find(one) for one in sorted(named)[:_MOST])
    known = [one for one in told if one is not None]
    models = [one for one in known if _is_model(one)]
    yield from models or _outermost(near)


def _is_model(one: Definition) -> bool:
    home, node = one
    return isinstance(node, ast.ClassDef) and (
        home.values.class_kind(node) is Kind.MODEL
    )


def _outermost(near: Neighbours) -> Iterator[Definition]:
    for program in near.in_tree():
        inner = {
            id(cls)
            for scope in program.module.scopes.values()
            for call in scope.calls
            if (cls := program.graph.class_named(call.func, scope)) is not None
        }
        for cls in program.graph.classes():
            if id(cls) not in inner and _is_model((program, cls)):
                yield program, cls
