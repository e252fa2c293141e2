"""Optional parameters that a function asserts, or asks, to be there: `F.batch_norm` takes a weight
that is a tensor or None, and `assert self.weight is not None` leaves the tensor.
"""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.torch_facts import ops


def is_there(program: Program, cast: ast.Call, scope: Scope) -> bool:
    """Whether what `cast` is called on is such a parameter, and asserted before."""
    assert isinstance(cast.func, ast.Attribute)
    name = dotted_name(cast.func.value)
    if name is None or not _is_optional(program, cast):
        return False
    bindings = scope.bindings.get(name, ())
    if any(program.module.scope_of(one.statement) is scope for one in bindings):
        return False
    return any(
        isinstance(statement, ast.Assert)
        and statement.lineno < cast.lineno
        and name in _asserted(statement.test)
        for statement in scope.body
    )


def is_asked_for(program: Program, name: ast.expr, scope: Scope) -> bool:
    """Whether a name is read under `if name is not None`, and nothing else gives it a value."""
    dotted = dotted_name(name)
    if dotted is None or len(scope.bindings.get(dotted, ())) != 1:
        return False
    below: ast.AST = name
    for above in program.module.ancestors(name):
        if above is scope.node:
            return False
        if isinstance(above, ast.If) and below in above.body:
            if dotted in _asserted(above.test):
                return True
        below = above
    return False


def _is_optional(program: Program, cast: ast.Call) -> bool:
    """Whether an operator of torch takes it as one of its parameters."""
    above = program.module.parents.get(cast)
    named = above.arg if isinstance(above, ast.keyword) else None
    call = program.module.parents.get(above) if named and above else above
    found = (
        ops.function(program.canonical(call.func))
        if isinstance(call, ast.Call)
        else None
    )
    if found is None or not isinstance(call, ast.Call):
        return False
    return any(
        named == name or i < len(call.args) and call.args[i] is cast
        for i, name in found.op.float_parameters
    )


def _asserted(test: ast.expr) -> set[str]:
    """The names that a condition says to be something: `a is not None and b is not None`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return {name for one in test.values for name in _asserted(one)}
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return set()
    right = test.comparators[0]
    is_none = isinstance(right, ast.Constant) and right.value is None
    if not (is_none and isinstance(test.ops[0], ast.IsNot)):
        return set()
    return {dotted_name(test.left) or ""} - {""}
