"""AMP forced on or off in rewritten code, whatever its own switch says.

Without a GPU the switch of a correct rewrite is off, and with one it is on; `verify` needs both.
Only the calls that the rewrite added are touched, and the switch is still evaluated, so that a
wrong one raises as it would for the user.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import imports_of
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.runtime.linemap import LineMap
from amp_migrate.torch_facts.amp_api import parameter_place


def force_switch(tree: ast.Module, lines: LineMap, on: bool) -> None:
    """Turn the added `autocast` and `GradScaler` calls of `tree` on or off, in place; before
    `relocate`.
    """
    nodes = list(nodes_in(tree))
    imports = imports_of(
        node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))
    )
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and _name(node) in ("GradScaler", "autocast")
            and not lines.same[node.lineno]
        ):
            name = imports.canonical(node.func) or ""
            _force(node, on, parameter_place(name, "enabled"))


def _name(call: ast.Call) -> str:
    target = call.func
    return (
        target.attr
        if isinstance(target, ast.Attribute)
        else target.id
        if isinstance(target, ast.Name)
        else ""
    )


def _force(call: ast.Call, on: bool, place: int | None) -> None:
    given = next(
        (keyword for keyword in call.keywords if keyword.arg == "enabled"), None
    )
    if given is not None:
        given.value = _forced(given.value, on)
    elif place is not None and place < len(call.args):
        call.args[place] = _forced(call.args[place], on)
    else:
        constant = ast.copy_location(ast.Constant(on), call)
        call.keywords.append(
            ast.copy_location(ast.keyword("enabled", constant), call)
        )


def _forced(value: ast.expr, on: bool) -> ast.expr:
    if _follows(value):
        return value
    both = ast.Tuple([value, ast.Constant(on)], ast.Load())
    forced = ast.Subscript(both, ast.Constant(1), ast.Load())
    return ast.fix_missing_locations(ast.copy_location(forced, value))


def _follows(value: ast.expr) -> bool:
    """`scaler.is_enabled()` follows the scaler's switch; a literal False (the scaler of an unknown
    caller) is meant.
    """
    if isinstance(value, ast.Constant):
        return value.value is False
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "is_enabled"
    )
