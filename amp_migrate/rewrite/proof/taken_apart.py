"""Values that the program takes apart, `kl(*dist)`, `mean, variance = dist`: they are tuples, and
have no `.float()`, though a tensor could be taken apart, too.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Scope
from amp_migrate.model.syntax.queries import nodes_in


def is_taken_apart(program: Program, cast: ast.Call, scope: Scope) -> bool:
    """Whether what `cast` casts is taken apart where the cast stands, or in the function that gets
    it.
    """
    assert isinstance(cast.func, ast.Attribute)
    value = cast.func.value
    if isinstance(value, ast.Name) and _takes_apart(scope.node, value.id):
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
    return name is not None and _takes_apart(function, name)


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


def _takes_apart(node: ast.AST, name: str) -> bool:
    body = node.body if isinstance(node, (ast.Module, *FUNCTIONS)) else []
    return any(
        _is_apart(one, name)
        for statement in body
        for one in nodes_in(statement)
    )


def _is_apart(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Starred):
        return isinstance(node.value, ast.Name) and node.value.id == name
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Name):
        return False
    return node.value.id == name and any(
        isinstance(one, ast.Tuple) for one in node.targets
    )
