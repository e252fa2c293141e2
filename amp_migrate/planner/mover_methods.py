"""Methods that do nothing but move what an object holds: whoever calls them decides."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.call_sites import CallSite
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import FUNCTIONS, Scope


def is_left_to_callers(program: Program, scope: Scope) -> bool:
    """Whether a body is a method like `def cuda(self): self.net.cuda()`, of which no call is in
    sight, or one under a condition.
    """
    method = scope.node
    if not isinstance(method, FUNCTIONS) or scope.owner is None:
        return False
    if method.name == "__init__" or not _all_move(method.body):
        return False
    sites = [one for one in program.graph.sites(method) if _is_own(one)]
    return not sites or any(
        isinstance(parent, (ast.If, ast.IfExp))
        for site in sites
        for parent in program.module.ancestors(site.call)
    )


def _is_own(site: CallSite) -> bool:
    """A call on the same object, in another of its methods: `net.cuda()` moves a module."""
    func = site.call.func
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and (func.value.id == site.scope.self_name)
    )


def _moves(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return _all_move([*statement.body, *statement.orelse])
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant):
        return True
    return (
        isinstance(statement, (ast.Expr, ast.Assign))
        and isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("cuda", "to")
    )


def _all_move(statements: Iterable[ast.stmt]) -> bool:
    return all(map(_moves, statements))
