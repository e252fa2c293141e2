"""`loss = E` right before `loss.backward()`, the name used nowhere else, means `E.backward()`.

Hoisting is the one rewrite that renames, so both programs are folded alike before they are
compared.
"""

from __future__ import annotations

import ast

from amp_migrate.rewrite.proof.scopes import Scope, build


def inline(tree: ast.Module, hoisted: frozenset[str]) -> None:
    """Fold every such pair of a name in `hoisted`, in place."""
    if not hoisted:
        return
    for scope in build(tree, hoisted).walk():
        for name in hoisted & {mention.name for mention in scope.mentions}:
            _inline_in(scope, name)


def _inline_in(scope: Scope, name: str) -> None:
    blocks = list(_blocks(scope.node))
    pairs = sum(
        _is_pair(block, index, name)
        for block in blocks
        for index in range(len(block) - 1)
    )
    if not scope.binds(name) or len(list(scope.sees(name))) != 2 * pairs:
        return
    for block in blocks:
        for index in reversed(range(len(block) - 1)):
            if _is_pair(block, index, name):
                _fold(block, index)


def _fold(block: list[ast.stmt], index: int) -> None:
    made, used = block[index], block[index + 1]
    assert isinstance(made, ast.Assign)
    _receiver(used).value = made.value
    ast.copy_location(used, made)
    del block[index]


def _receiver(statement: ast.stmt) -> ast.Attribute:
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert isinstance(statement.value.func, ast.Attribute)
    return statement.value.func


def _is_pair(block: list[ast.stmt], index: int, name: str) -> bool:
    made, used = block[index], block[index + 1]
    if (
        not isinstance(made, ast.Assign)
        or len(made.targets) != 1
        or not _is_name(made.targets[0], name)
    ):
        return False
    call = used.value if isinstance(used, ast.Expr) else None
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
        or call.func.attr != "backward"
    ):
        return False
    return _is_name(call.func.value, name)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    """Every statement list of one scope, nested definitions left out."""
    found: list[list[ast.stmt]] = []
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            found.append(block)
    holders = [*getattr(node, "handlers", []), *getattr(node, "cases", [])]
    for inner in [*(item for block in found for item in block), *holders]:
        if not isinstance(
            inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            found += _blocks(inner)
    return found
