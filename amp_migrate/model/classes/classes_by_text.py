"""The classes that a text may name: `import_class(cfg.model)` imports the module and looks up the
class, and only a settings file, or the one who starts the program, knows both.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate.model.files.neighbours import in_tree
from amp_migrate.model.naming.import_calls import (
    IMPORTERS,
    imported_module,
    is_import_call,
)
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Kind
from amp_migrate.project import nearby

if TYPE_CHECKING:
    from amp_migrate.model.files.neighbours import Definition, Neighbours
    from amp_migrate.model.program import Program

_CLASS = re.compile(rb"\b(?:[A-Za-z_]\w*\.)+[A-Z]\w*\b")
_MOST = 64


def imports_by_text(program: Program) -> bool:
    """Whether a function of a file imports a module whose name is no constant."""

    def found() -> bool:
        return any(
            not isinstance(call.args[0], ast.Constant)
            for call, _ in _imports(program)
        )

    return program.remembered(imports_by_text, found)


def classes_of_named_modules(program: Program) -> Iterator[Definition]:
    """What the modules hold that a file imports by a text in sight: of
    `getattr(import_module("nets"), kind)` only the run knows more.
    """
    for call, scope in _imports(program):
        near, module = scope.module.neighbours, imported_module(call)
        if near is not None and module is not None:
            yield from near.exported(module)


def _imports(program: Program) -> Iterator[tuple[ast.Call, Scope]]:
    """The calls that import a module."""
    text = program.module.text
    if not any(one in text for one in IMPORTERS):
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if is_import_call(call):
                yield call, scope


def classes_by_text(files: Iterable[Neighbours]) -> Iterator[Definition]:
    """Those that settings files of the trees of some files name; where none does, the models of
    their files that no other class there is made of. Files of one tree read it once.
    """
    named: dict[Path, set[str]] = {}
    outermost: dict[tuple[Path, ...], list[Definition]] = {}
    for near in files:
        roots = tuple(near.roots())
        for root in roots:
            if root not in named:
                named[root] = set(_named_below(root))
        names = sorted(set().union(*(named[root] for root in roots)))
        told = (near.find(one) for one in names[:_MOST])
        known = [one for one in told if one is not None]
        models = [one for one in known if _is_model(one)]
        if not models and roots not in outermost:
            outermost[roots] = list(_outermost(roots))
        yield from models or outermost[roots]


def _named_below(root: Path) -> Iterator[str]:
    """The classes that settings files of a tree name."""
    for text in nearby.settings_below(root):
        for one in _CLASS.findall(text):
            yield one.decode()


def _is_model(one: Definition) -> bool:
    home, node = one
    return isinstance(node, ast.ClassDef) and (
        home.values.class_kind(node) is Kind.MODEL
    )


def _outermost(roots: tuple[Path, ...]) -> Iterator[Definition]:
    """The models of a tree that nothing in their file makes."""
    for program in in_tree(roots):
        inner = {
            id(cls)
            for scope in program.module.scopes.values()
            for call in scope.calls
            if (cls := program.graph.class_named(call.func, scope)) is not None
        }
        for cls in program.graph.classes():
            if id(cls) not in inner and _is_model((program, cls)):
                yield program, cls
