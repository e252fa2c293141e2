"""Which keys a checkpoint has, and where a program asks for them: older files lack some."""

from __future__ import annotations

import ast

from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS


def keys_of(made: ast.expr) -> frozenset[object]:
    """The keys that are written where a dict is made."""
    if isinstance(made, ast.Dict):
        keys = [key for key in made.keys if isinstance(key, ast.Constant)]
        return frozenset(key.value for key in keys)
    given = made.keywords if isinstance(made, ast.Call) else []
    return frozenset(one.arg for one in given if one.arg is not None)


def lacks_one(
    program: Program, held: ast.expr, keys: frozenset[object]
) -> bool:
    """Whether a dict has been found to lack one of the keys where it is read.

    `if "epoch" in state: ... else: state.items()`, where each that is saved has an epoch.
    """
    module, name = program.module, dotted_name(held)
    inner: ast.AST = held
    while name is not None and not isinstance(inner, (*FUNCTIONS, ast.Module)):
        outer = module.parents[inner]
        found = (
            _asked(outer, inner, keys) if isinstance(outer, ast.If) else None
        )
        if found is not None and dotted_name(found) == name:
            at = program.reaching.at
            return at(found, name).bindings == at(held, name).bindings
        inner = outer
    return False


def _asked(
    branch: ast.If, inner: ast.AST, keys: frozenset[object]
) -> ast.expr | None:
    """What lacks one of the keys in the arm of a branch that `inner` stands in."""
    test = branch.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    lacking = branch.orelse if isinstance(test.ops[0], ast.In) else []
    if isinstance(test.ops[0], ast.NotIn):
        lacking = branch.body
    is_key = literal(test.left) in keys
    return test.comparators[0] if is_key and inner in lacking else None


def literal(key: ast.expr | None) -> object:
    """A key that is written as a constant; the expression itself for any other."""
    return key.value if isinstance(key, ast.Constant) else key
