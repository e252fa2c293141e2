"""Under which tests code stands, which of two pieces of code runs, and what runs never."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument, default_of
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def runs_where_false(
    program: Program, node: ast.AST, expr: ast.expr, outer: ast.AST
) -> bool:
    """Whether `node`, inside of `outer`, runs only where `expr` was false when `outer` began: the
    arms of `if`s that ask for the same, of what nothing in `outer` changes.
    """
    asked = ast.unparse(expr)
    if not any(
        ast.unparse(test) == asked and not holds
        for test, holds in arms(program, node, outer)
    ):
        return False
    read, changed = _variables(expr), _variables(outer, changed=True)
    return not read & changed


def are_exclusive(program: Program, first: ast.AST, second: ast.AST) -> bool:
    """Whether two nodes of a function stand under one test that must hold for the one and fail
    for the other.
    """
    function = program.module.scope_of(first).node
    ours = {ast.unparse(t): h for t, h in arms(program, first, function)}
    return any(
        ours.get(ast.unparse(test), holds) is not holds
        for test, holds in arms(program, second, function)
    )


def _variables(node: ast.AST, *, changed: bool = False) -> set[str]:
    """The variables, attributes and items in `node`; those that it changes, if only these are
    wanted.
    """
    return {
        ast.unparse(inner)
        for inner in ast.walk(node)
        if isinstance(inner, (ast.Name, ast.Attribute, ast.Subscript))
        and not (changed and isinstance(inner.ctx, ast.Load))
    }


def arms(
    program: Program, node: ast.AST, outer: ast.AST
) -> Iterator[tuple[ast.expr, bool]]:
    """The tests between `node` and `outer`, and whether they hold where `node` runs; those of
    statements that leave before it as well.
    """
    inner = node
    for above in program.module.ancestors(node):
        if isinstance(inner, ast.stmt) and inner in program.module.block_lists:
            for before in program.module.block_of(inner):
                if before is inner:
                    break
                if isinstance(before, ast.If) and isinstance(
                    before.body[-1], _LEAVES
                ):
                    yield _plain(before.test, False)
        if above is outer:
            return
        if isinstance(above, ast.If) and inner is not above.test:
            yield _plain(above.test, inner in above.body)
        elif isinstance(above, ast.IfExp) and inner is not above.test:
            yield _plain(above.test, inner is above.body)
        inner = above


def _plain(test: ast.expr, holds: bool) -> tuple[ast.expr, bool]:
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    return test, holds


def never_runs(program: Program, node: ast.AST) -> bool:
    """Whether code of a method runs only where an option is set that no object in sight is given:
    `if self.visualize:`, false by default.
    """
    scope = program.module.scope_of(node)
    return any(
        holds and _is_left_false(program, test, scope)
        for test, holds in arms(program, node, scope.node)
    )


def _is_left_false(program: Program, test: ast.expr, scope: Scope) -> bool:
    cls = program.graph.class_around(scope)
    name = test.attr if isinstance(test, ast.Attribute) else ""
    if cls is None or dotted_name(test) != f"{scope.self_name}.{name}":
        return False
    made = program.graph.constructions(cls)
    begin = program.graph.method(cls, "__init__")
    stored = [
        one
        for home in program.module.scopes.values()
        for dotted, held in home.bindings.items()
        if dotted.rpartition(".")[2] == name and "." in dotted
        for one in held
    ]
    given = stored[0].value if len(stored) == 1 else None
    if not made or begin is None or program.graph.heirs(cls) != [cls]:
        return False
    inner = program.scope(begin)
    if not isinstance(given, ast.Name) or given.id not in inner.bindings:
        return _is_false(given)
    parameter = inner.bindings[given.id]
    plain = len(parameter) == 1 and parameter[0].how == "parameter"
    passed = [
        argument(call, inner, given.id, True)
        or (None if _is_open(call) else default_of(begin, given.id))
        for call, _ in made
    ]
    return plain and all(map(_is_false, passed))


def _is_open(call: ast.Call) -> bool:
    """`Net(*options, **more)`"""
    return any(isinstance(one, ast.Starred) for one in call.args) or any(
        one.arg is None for one in call.keywords
    )


def _is_false(expr: ast.expr | None) -> bool:
    return isinstance(expr, ast.Constant) and not expr.value
