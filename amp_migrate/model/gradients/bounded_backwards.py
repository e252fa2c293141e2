"""Backward functions that do not pass the scaler's factor on: those that bound gradients by a
constant, take their sign, or divide them by their norm.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.syntax.queries import is_none, names_in, nodes_in
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts.gradients import BOUNDING, NO_MULTIPLES


def bound_in(program: Program, backward: Function) -> ast.expr | None:
    """What makes a gradient something else than a multiple of what `backward` is given."""
    scope = program.scope(backward)
    given = [*backward.args.args[1:], *filter(None, [backward.args.vararg])]
    names = {one.arg for one in given}
    for statement in backward.body:
        for node in nodes_in(statement):
            if isinstance(node, ast.expr) and _bounds(node, names, scope):
                return node
        if (
            isinstance(statement, ast.Assign)
            and names_in(statement.value) & names
        ):
            names |= {
                one.id
                for target in statement.targets
                for one in nodes_in(target)
                if isinstance(one, ast.Name)
            }
    return None


def _bounds(node: ast.expr, names: set[str], scope: Scope) -> bool:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        ours = [one for one in sides if names_in(one) & names]
        others = [one for one in sides if one not in ours]
        return bool(ours) and any(
            number(one, scope) not in (0, None) for one in others
        )
    if not isinstance(node, ast.Call):
        return False
    func = node.func
    name = (dotted_name(func) or "").rpartition(".")[2]
    name = func.attr if isinstance(func, ast.Attribute) else name
    whole = isinstance(func, ast.Attribute) and bool(
        names_in(func.value) & names
    )
    given = [*node.args, *(one.value for one in node.keywords)]
    if not (whole or given and names_in(given[0]) & names):
        return False
    if name in NO_MULTIPLES:
        return True
    limits = given if whole else given[1:]
    return name in BOUNDING - {"nan_to_num"} and any(
        number(one, scope) != 0 for one in limits if not is_none(one)
    )
