"""Values that the program takes apart, `kl(*dist)`, `mean, variance = dist`: they are tuples, and
have no `.float()`, though a tensor could be taken apart, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in


def is_taken_apart(program: Program, cast: ast.Call, scope: Scope) -> bool:
    """Whether what `cast` casts is taken apart where the cast stands, or in the function that gets
    it.
    """
    assert isinstance(cast.func, ast.Attribute)
    value = cast.func.value
    if isinstance(value, ast.Name):
        apart = _taken_apart(scope.node, value.id)
        if any(_may_be_one(program, value, one) for one in apart):
            return True
    call = program.module.parents.get(cast)
    if isinstance(call, ast.keyword):
        call = program.module.parents.get(call)
    function = (
        program.values.callee(call, scope)
        if isinstance(call, ast.Call)
        else None
    )
    if function is None or not isinstance(call, ast.Call):
        return False
    name = _parameter(function, call, cast)
    return name is not None and any(_taken_apart(function, name))


def _may_be_one(program: Program, first: ast.Name, second: ast.Name) -> bool:
    """Whether a name may hold one value at both places: `x, y = x` in a branch, `x = x.view(2)`
    below it, and `x.float()` behind that do not meet.
    """
    reaches = [program.reaching.at(one, one.id) for one in (first, second)]
    if not all(one.complete for one in reaches):
        return True
    bound, other = (set(one.bindings) for one in reaches)
    return not bound.isdisjoint(other)


def _parameter(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    call: ast.Call,
    given: ast.expr,
) -> str | None:
    """The name that an argument has in the function."""
    keyword = next(
        (one.arg for one in call.keywords if one.value is given), None
    )
    if keyword is not None or given not in call.args:
        return keyword
    names = [
        one.arg for one in [*function.args.posonlyargs, *function.args.args]
    ]
    is_method = isinstance(call.func, ast.Attribute) and names[:1] == ["self"]
    place = call.args.index(given) + (1 if is_method else 0)
    return names[place] if place < len(names) else None


def _taken_apart(node: ast.AST, name: str) -> Iterator[ast.Name]:
    body = node.body if isinstance(node, (ast.Module, *FUNCTIONS)) else []
    for statement in body:
        for one in nodes_in(statement):
            apart = _apart(one)
            if isinstance(apart, ast.Name) and apart.id == name:
                yield apart


def _apart(node: ast.AST) -> ast.expr | None:
    """What a node takes apart."""
    if isinstance(node, ast.Starred):
        return node.value
    if not isinstance(node, ast.Assign):
        return None
    is_apart = any(isinstance(one, ast.Tuple) for one in node.targets)
    return node.value if is_apart else None
