"""What a call runs of an object, if that is of a certain class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import fits
from amp_migrate.model.calls.targets import forwards
from amp_migrate.model.forwards.model_layers import layers
from amp_migrate.model.forwards.own_forwards import own_forwards
from amp_migrate.model.syntax.module import Function

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def methods_of(
    program: Program, cls: ast.ClassDef, method: str
) -> Iterator[Function]:
    """The method of a class; of `forward`, those of its layers, too."""
    if method == "forward":
        yield from forwards(program, cls)
    else:
        yield from _own(program, cls, method)


def fitting_methods(
    program: Program, cls: ast.ClassDef, method: str, call: ast.Call
) -> Iterator[Function]:
    """The same for a class that nobody names: none where the call would raise, for then the object
    is of another.
    """
    if _fits(program, cls, method, call):
        yield from methods_of(program, cls, method)


def fitting_anywhere(
    program: Program, cls: ast.ClassDef, method: str, call: ast.Call
) -> Iterator[tuple[Program, Function]]:
    """The same, with the `forward`s of the layers and bases that stand in other files."""
    if not _fits(program, cls, method, call):
        return
    family = layers(program, cls) if method == "forward" else [(program, cls)]
    for home, one in family:
        yield from ((home, found) for found in _own(home, one, method))


def _fits(
    program: Program, cls: ast.ClassDef, method: str, call: ast.Call
) -> bool:
    own = list(_own(program, cls, method))
    return not own or any(fits(call, one, True) for one in own)


def _own(
    program: Program, cls: ast.ClassDef, method: str
) -> Iterator[Function]:
    if method == "forward":
        yield from own_forwards(program, cls)
        return
    found = program.graph.method(cls, method)
    if found is not None:
        yield found
