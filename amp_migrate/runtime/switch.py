"""AMP forced on or off in rewritten code, whatever its own switch says.

Without a GPU the switch of a correct rewrite is off, and with one it is on; `verify` needs both. Only the calls that
the rewrite added are touched, and the switch is still evaluated, so that a wrong one raises as it would for the user.
"""

from __future__ import annotations

import ast

from amp_migrate.runtime.linemap import LineMap

_MAKERS = ("GradScaler", "autocast")


def force_switch(tree: ast.Module, lines: LineMap, on: bool) -> None:
    """Turn the added `autocast` and `GradScaler` calls of `tree` on or off, in place; before `relocate`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node) in _MAKERS and not lines.same[node.lineno]:
            _force(node, on)


def _name(call: ast.Call) -> str:
    target = call.func
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""


def _force(call: ast.Call, on: bool) -> None:
    given = next((keyword for keyword in call.keywords if keyword.arg == "enabled"), None)
    if given is None:
        constant = ast.copy_location(ast.Constant(on), call)
        call.keywords.append(ast.copy_location(ast.keyword("enabled", constant), call))
    elif not _follows(given.value):
        both = ast.Tuple([given.value, ast.Constant(on)], ast.Load())
        forced = ast.Subscript(both, ast.Constant(1), ast.Load())
        given.value = ast.fix_missing_locations(ast.copy_location(forced, given.value))


def _follows(value: ast.expr) -> bool:
    """`scaler.is_enabled()` follows the scaler's switch; a literal False (the scaler of an unknown caller) is meant."""
    if isinstance(value, ast.Constant):
        return value.value is False
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "is_enabled"
