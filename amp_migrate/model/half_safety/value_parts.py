"""How a value is written where it is made: its bindings, its parts, and what only turns it around.

A path says which part of a value is meant: `(0, "map")` of `outputs[0]["map"]`, with None for an
element that is not told, as in `for p in preds`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope

Path: TypeAlias = "tuple[int | str | None, ...]"


def value_of(binding: Binding) -> tuple[ast.expr, Path] | None:
    """What an assignment gives a name, or what a loop goes through."""
    value, index = binding.value, binding.index
    if value is None:
        return None
    if binding.how in ("assign", "walrus", "augmented"):
        return value, () if index is None else (index,)
    if binding.how != "for":
        return None
    called = dotted_name(value.func) if isinstance(value, ast.Call) else None
    given = value.args if isinstance(value, ast.Call) else []
    if called == "enumerate" and index == 1 and given:
        return given[0], (None,)
    if called == "zip" and index is not None and index < len(given):
        return given[index], (None,)
    return value, (None,) if index is None else (None, index)


def added_to(scope: Scope, name: str) -> list[tuple[ast.expr | None, Path]]:
    """What a body appends to a list, and the part of it; None for what is added in other ways."""
    found: list[tuple[ast.expr | None, Path]] = []
    for call in scope.calls:
        func = call.func
        if isinstance(func, ast.Attribute) and dotted_name(func.value) == name:
            given = call.args[0] if len(call.args) == 1 else None
            if func.attr == "append":
                found.append((given, ()))
            elif func.attr == "extend":
                found.append((given, (None,)))
            elif func.attr == "insert":
                found.append((call.args[-1] if call.args else None, ()))
    return found


def stored_in(
    program: Program, name: str, scope: Scope, path: Path
) -> Iterator[tuple[ast.expr, Path]]:
    """What `maps["out"] = p`, `masks[i] = p` and `masks.append(p)` put where a path may lead, with
    the rest of it.
    """
    head, _, rest = name.partition(".")
    cls = program.graph.class_around(scope) if rest else None
    home = scope.lookup(name) or scope
    if cls is not None and head == scope.self_name:
        home, name = program.module.scopes[cls], f"self.{rest}"
    for one in home.stored.get(name, ()):
        if one.key is None or _may_be(one.key, path):
            yield one.value, path[1:]


def _may_be(key: ast.expr, path: Path) -> bool:
    """Whether a key may be the one that is asked for."""
    place = path[0] if path else None
    is_told = isinstance(key, ast.Constant) and place is not None
    return not is_told or ast.literal_eval(key) == place


def stepped(expr: ast.Subscript) -> Path:
    """The step that `outputs[1]`, `outputs["map"]`, `outputs[i]` takes; none for a slice."""
    place = expr.slice
    if isinstance(place, (ast.Slice, ast.Tuple)):
        return ()
    try:
        told = ast.literal_eval(place)
    except ValueError:
        return (None,)
    return (told,) if isinstance(told, (int, str)) else ()


def elements(
    display: ast.Tuple | ast.List, path: Path
) -> list[tuple[ast.expr, Path]]:
    """The elements of a display that a path leads to, with the rest of the path."""
    place, rest = (path[0], path[1:]) if path else (None, ())
    count = len(display.elts)
    if isinstance(place, int) and -count <= place < count:
        return [(display.elts[place], rest)]
    return [(one, rest) for one in display.elts]


def entries(display: ast.Dict, path: Path) -> list[tuple[ast.expr, Path]]:
    """The same of a dictionary; all its values where no key is told."""
    place, rest = (path[0], path[1:]) if path else (None, ())
    pairs = zip(display.keys, display.values, strict=True)
    named = [
        (value, rest)
        for key, value in pairs
        if isinstance(key, ast.Constant) and key.value == place
    ]
    is_told = isinstance(place, (int, str))
    return named if is_told else [(one, rest) for one in display.values]


def is_empty(value: ast.expr) -> bool:
    """A list, tuple or dictionary without anything in it."""
    if isinstance(value, ast.Dict):
        return not value.values
    called = isinstance(value, ast.Call) and not (value.args or value.keywords)
    if called and isinstance(value, ast.Call):
        return dotted_name(value.func) in ("list", "dict")
    return isinstance(value, (ast.List, ast.Tuple)) and not value.elts
