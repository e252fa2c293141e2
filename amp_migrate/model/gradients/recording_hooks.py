"""Hooks that only keep the gradients that they are given, as Grad-CAM does, and where they keep
them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from amp_migrate.model.gradients.hooks import hook_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.torch_facts.gradients import SHAPES

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_KEEPS = {"append", "extend"}
_OF_GRADIENTS = {"grad", "data"}
_SETS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Pass)


def kept_by_hook(
    program: Program, call: ast.Call, scope: Scope
) -> frozenset[str] | None:
    """The attributes and names under which a hook keeps what it is given, if that is all it does:
    the gradients go on as they came. None for a hook that may do more.
    """
    hook = hook_of(program, call.args[0], scope) if call.args else None
    if hook is None:
        return None
    body = hook.body if isinstance(hook, FUNCTIONS) else [ast.Expr(hook.body)]
    kept = [_kept(program, one, hook) for one in body]
    names = [one for one in kept if one is not None]
    return frozenset().union(*names) if len(names) == len(kept) else None


def is_blind(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a hook only sets something, of no gradient: a cache is empty from then on, what its
    shape costs is counted.
    """
    hook = hook_of(program, call.args[0], scope) if call.args else None
    if not isinstance(hook, FUNCTIONS):
        return False
    home = scope.module.scopes.get(hook)
    owner = home.self_name if home is not None else None
    given = {one.arg for one in nodes_in(hook.args) if isinstance(one, ast.arg)}
    nodes = [node for part in hook.body for node in nodes_in(part)]
    parents = program.module.parents
    read = [
        one
        for one in nodes
        if isinstance(one, ast.Name) and one.id in given - {owner}
    ]
    attributes = {one.attr for one in nodes if isinstance(one, ast.Attribute)}
    calls = [one for one in nodes if isinstance(one, ast.Call)]
    return (
        all(map(_only_sets, hook.body))
        and all(_is_appended(one) or _asks_size(one) for one in calls)
        and all(_is_size(parents, one) for one in read)
        and not attributes & _OF_GRADIENTS
    )


def _only_sets(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return all(map(_only_sets, (*statement.body, *statement.orelse)))
    if isinstance(statement, ast.Expr) and isinstance(
        statement.value, ast.Call
    ):
        return _is_appended(statement.value)
    return isinstance(statement, _SETS) or _is_text(statement)


def _is_appended(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _KEEPS


def _asks_size(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in SHAPES


def _is_size(parents: Mapping[ast.AST, ast.AST], name: ast.expr) -> bool:
    """Whether nothing is asked of a name but its shape: `grad_output[0].shape[1]`, or whether it is
    None.
    """
    node, above = name, parents.get(name)
    while isinstance(above, ast.Subscript) and above.value is node:
        node, above = above, parents.get(above)
    if isinstance(above, ast.Compare):
        return all(isinstance(one, (ast.Is, ast.IsNot)) for one in above.ops)
    return isinstance(above, ast.Attribute) and above.attr in SHAPES


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(
        statement.value, ast.Constant
    )


def _kept(
    program: Program, statement: ast.stmt, hook: ast.Lambda | Function
) -> frozenset[str] | None:
    """Where a statement of a hook keeps something; None if it may do anything else."""
    if isinstance(statement, ast.Pass):
        return frozenset()
    if isinstance(statement, ast.Return):
        given = statement.value
        is_nothing = given is None or _is_constant(given, None)
        return frozenset() if is_nothing else None
    if isinstance(statement, ast.Assign):
        names = [_holder(one) for one in statement.targets]
        return _all(names) if _leaves(program, statement.value) else None
    if not isinstance(statement, ast.Expr):
        return None
    if isinstance(statement.value, ast.Constant):
        return frozenset()
    return _appended(program, statement.value)


def _appended(program: Program, expr: ast.expr) -> frozenset[str] | None:
    """`self.gradients.append(grad.detach())`."""
    if not isinstance(expr, ast.Call) or not isinstance(
        expr.func, ast.Attribute
    ):
        return None
    if expr.func.attr not in _KEEPS or expr.keywords:
        return None
    if not all(_leaves(program, one) for one in expr.args):
        return None
    return _all([_holder(expr.func.value)])


def _all(names: list[str | None]) -> frozenset[str] | None:
    known = [one for one in names if one is not None]
    return frozenset(known) if len(known) == len(names) else None


def _holder(target: ast.expr) -> str | None:
    """`gradients` of `self.gradients`, `self.gradients[0]` and of `gradients["last"]`; none of
    what may be a part of a gradient or of a parameter.
    """
    while isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Attribute):
        name = dotted_name(target)
        parts = set(name.split(".")) if name is not None else _OF_GRADIENTS
        return None if parts & _OF_GRADIENTS else target.attr
    return target.id if isinstance(target, ast.Name) else None


def _leaves(program: Program, value: ast.expr) -> bool:
    """Whether an expression leaves what it reads as it is."""
    return all(
        _gives_new(program, node)
        for node in nodes_in(value)
        if isinstance(node, (ast.Call, ast.Await, ast.NamedExpr))
    )


def _gives_new(program: Program, node: ast.AST) -> bool:
    """`grad.detach()`, `torch.norm(grad)`: not `grad.mul_(2)`, nor a function out of sight."""
    if not isinstance(node, ast.Call):
        return False
    name = program.canonical(node.func) or ""
    if name.startswith("torch."):
        return not name.endswith("_")
    return isinstance(node.func, ast.Attribute) and not node.func.attr.endswith(
        "_"
    )


def _is_constant(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def is_read(names: frozenset[str], node: ast.AST) -> bool:
    """Whether a node reads one of these names or attributes."""
    if isinstance(node, ast.Name):
        return node.id in names and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Attribute):
        return node.attr in names and isinstance(node.ctx, ast.Load)
    return False
