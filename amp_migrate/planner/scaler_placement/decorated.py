"""Decorators of a function that needs the scaler: what they may keep, and what they hand on."""

from __future__ import annotations

import ast

from amp_migrate.model.calls.decorators import only_wraps, strict_wrapper
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function
from amp_migrate.planner.refusal import Refusal

_PLAIN_MARKS = (
    "torch.",
    "functools.",
    "typing.",
    "staticmethod",
    "classmethod",
    "contextlib.",
    "abc.",
    "numpy.",
)


def registrar(program: Program, function: Function) -> str | None:
    """A decorator that may put the function where others find it."""
    for mark in function.decorator_list:
        maker = mark.func if isinstance(mark, ast.Call) else mark
        name = program.canonical(maker) or dotted_name(maker) or ""
        is_plain = name.startswith(_PLAIN_MARKS)
        if not is_plain and not only_wraps(program, mark):
            return f"@{ast.unparse(maker)}"
    return None


def refuse_strict_wrappers(program: Program, function: Function) -> None:
    """Raise Refusal where a decorator in sight puts a function in the place of this one that would
    not take a new argument.
    """
    for mark in function.decorator_list:
        wrapper = strict_wrapper(program, mark)
        if wrapper is not None:
            raise Refusal(
                "callers-unknown",
                function,
                f"`@{ast.unparse(mark)}` puts `{wrapper.name}` in the place of `{function.name}`, "
                "which would not hand the scaler on: let it take any keyword and pass it on",
            )
