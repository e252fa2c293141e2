"""What an optimizer's `step()` gives back: that of torch nothing where it gets no closure, one of
the project perhaps a norm or a loss.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope, returned


def is_value_used(
    program: Program, call: ast.Call, optimizer: ast.expr, scope: Scope
) -> bool:
    """Whether the program uses what `call`, a step of `optimizer`, gives back, and that may be
    more than None.
    """
    parent = program.module.parents[call]
    if isinstance(parent, ast.Expr):
        return False
    value = program.values.of(optimizer, scope)
    home, cls = value.foreign or (program, value.cls)
    if cls is None:
        name = value.name or ""
        is_torch = name.startswith("torch.optim.")
        is_handed_on = isinstance(parent, (ast.Return, ast.Lambda))
        return not is_torch and not is_handed_on
    method = home.graph.method(cls, "step")
    return method is not None and not _gives_nothing(home, method)


def _gives_nothing(program: Program, method: Function) -> bool:
    """Whether a step without a closure gives None."""
    scope = program.scope(method)
    return all(_is_nothing(one, scope) for one in returned(method))


def _is_nothing(expr: ast.expr, scope: Scope) -> bool:
    """None, what a base class gives, and what comes of a closure that was not given."""
    if isinstance(expr, ast.Constant):
        return expr.value is None
    if isinstance(expr, ast.Call):
        func = expr.func
        is_step = isinstance(func, ast.Attribute) and func.attr == "step"
        return (
            is_step
            or isinstance(func, ast.Name)
            and _is_parameter(func.id, scope)
        )
    if isinstance(expr, ast.IfExp):
        return _is_nothing(expr.body, scope) and _is_nothing(expr.orelse, scope)
    bindings = (
        scope.bindings.get(expr.id, []) if isinstance(expr, ast.Name) else []
    )
    values = [
        one.value
        for one in bindings
        if one.how == "assign" and one.index is None
    ]
    return len(values) == len(bindings) > 0 and all(
        value is not None
        and not isinstance(value, ast.Name)
        and _is_nothing(value, scope)
        for value in values
    )


def _is_parameter(name: str, scope: Scope) -> bool:
    assert isinstance(scope.node, FUNCTIONS)
    return any(one.arg == name for one in scope.parameters())
