"""Commands of click: the decorators that declare options, and the parameters that get them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Function

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def click_marks(program: Program, function: Function) -> list[ast.Call]:
    """The decorators of a function that declare options."""
    return [
        mark
        for mark in function.decorator_list
        if isinstance(mark, ast.Call)
        and program.canonical(mark.func) == "click.option"
    ]


def click_names(program: Program, function: Function) -> tuple[str, str] | None:
    """What the file of a function calls `click.option` and `click.Choice`."""
    local = program.scope(function).module.imports.local
    module = local("click")
    if module is not None:
        return f"{module}.option", f"{module}.Choice"
    option, choice = local("click.option"), local("click.Choice")
    return (option, choice) if option and choice else None


def is_click_flag(program: Program, function: Function, name: str) -> bool:
    """Whether a parameter gets True or False: `--amp/--no-amp`, `is_flag=True`, `type=bool`."""
    return any(
        _parameter(mark) == name and _is_flag(mark)
        for mark in click_marks(program, function)
    )


def _texts(mark: ast.Call) -> list[str]:
    return [
        one.value
        for one in mark.args
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]


def _parameter(mark: ast.Call) -> str | None:
    """By the rules of click: a name without dashes, else the first long option, else the first."""
    given = _texts(mark)
    plain = [one for one in given if one.isidentifier()]
    long = [one for one in given if one.startswith("--")]
    first = next(iter((*plain, *long, *given)), None)
    if first is None:
        return None
    return first.partition("/")[0].strip("- ").replace("-", "_").lower()


def _is_flag(mark: ast.Call) -> bool:
    given = {k.arg: k.value for k in mark.keywords}
    if "flag_value" in given or "multiple" in given or "count" in given:
        return False
    on, kind = given.get("is_flag"), given.get("type")
    return (
        any("/" in one for one in _texts(mark))
        or isinstance(on, ast.Constant)
        and on.value is True
        or isinstance(kind, ast.Name)
        and kind.id == "bool"
        and "default" in given
    )
