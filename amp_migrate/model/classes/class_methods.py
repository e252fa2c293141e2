"""What a call runs of an object, if that is of a certain class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import fits
from amp_migrate.model.calls.targets import forwards, own_forwards
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
    own = list(_own(program, cls, method))
    if not own or any(fits(call, one, True) for one in own):
        yield from methods_of(program, cls, method)


def _own(
    program: Program, cls: ast.ClassDef, method: str
) -> Iterator[Function]:
    if method == "forward":
        yield from own_forwards(program, cls)
        return
    found = program.graph.method(cls, method)
    if found is not None:
        yield found
