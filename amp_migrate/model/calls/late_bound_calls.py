"""Calls of what is found while the program runs: `getattr(callback, event)(model)`, a handler out
of a list, and properties, which are calls in other clothes. They may read gradients if anything
does that they could reach.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, shallow

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_LATER = ("for", "parameter")
_HOPS = 2


def of_dispatch(program: Program, call: ast.Call, scope: Scope) -> EventKind:
    """READS_GRADIENTS where a method of any name, or a function that is kept somewhere, may be
    what runs, and one of these reads gradients.
    """
    func = call.func
    if (
        isinstance(func, ast.Call)
        and _is_getattr(func)
        or _is_found(program, func)
    ):
        return _of_any(program, "methods")
    if (
        isinstance(func, ast.Subscript)
        or isinstance(func, ast.Name)
        and _is_taken(func, scope)
    ):
        return (
            _of_any(program, "kept")
            if not program.values.of(func, scope)
            else EventKind.NONE
        )
    return EventKind.NONE


def of_property(program: Program, asked: ast.Attribute) -> EventKind:
    """`trainer.grad_norm` of a class that has such a property."""
    if not isinstance(asked.ctx, ast.Load):
        return EventKind.NONE
    effect = EventKind.NONE
    for method in program.graph.methods_named(asked.attr):
        if any(
            isinstance(one, ast.Name) and one.id == "property"
            for one in method.decorator_list
        ):
            effect |= (
                program.effects.of_function(method) & EventKind.READS_GRADIENTS
            )
    return effect


def _is_found(program: Program, func: ast.expr) -> bool:
    """`handler(x)` of `handler = getattr(self, f"on_{event}", None)`."""
    if not isinstance(func, ast.Name):
        return False
    made = (one.value for one in program.reaching.at(func, func.id).bindings)
    return any(isinstance(one, ast.Call) and _is_getattr(one) for one in made)


def _is_getattr(func: ast.Call) -> bool:
    """`getattr(callback, event)`; a constant name is an attribute as any other."""
    named = (
        isinstance(func.func, ast.Name)
        and func.func.id == "getattr"
        and len(func.args) > 1
    )
    return named and not isinstance(func.args[1], ast.Constant)


def _is_taken(func: ast.Name, scope: Scope) -> bool:
    """Whether a name is bound by a loop or a parameter alone."""
    home = scope.lookup(func.id)
    return home is not None and all(
        one.how in _LATER for one in home.bindings[func.id]
    )


def _of_any(program: Program, which: str) -> EventKind:
    """What any of the functions does itself, or in a function that it calls."""

    def found() -> EventKind:
        functions = _methods(program) if which == "methods" else _kept(program)
        reads = any(_reads(program, one, _HOPS) for one in functions)
        return EventKind.READS_GRADIENTS if reads else EventKind.NONE

    return program.remembered((_of_any, which), found)


def _reads(program: Program, function: Function, hops: int) -> bool:
    """Not asked of `effects`, which may be asking what this function does."""
    scope = program.scope(function)
    nodes = (node for statement in function.body for node in shallow(statement))
    if any(program.effects.reads_gradients(node) for node in nodes):
        return True
    called = (
        (program.values.callee(call, scope) for call in scope.calls)
        if hops
        else ()
    )
    return any(
        one is not None and _reads(program, one, hops - 1) for one in called
    )


def _methods(program: Program) -> Iterator[Function]:
    """Those of all classes in sight."""
    for node, scope in program.module.scopes.items():
        if isinstance(node, FUNCTIONS) and scope.owner is not None:
            yield node


def _kept(program: Program) -> Iterator[Function]:
    """Functions that are handed on, or registered by a decorator."""
    for node, scope in program.module.scopes.items():
        if isinstance(node, FUNCTIONS) and scope.owner is None:
            if node.decorator_list or program.graph.escapes(node):
                yield node
