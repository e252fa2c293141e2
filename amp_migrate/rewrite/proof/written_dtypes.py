"""`value.to(out.dtype)` where `value` is written into `out`, which converts nothing: with AMP off
both have one dtype, and the cast is the value itself.
"""

from __future__ import annotations

import ast

from amp_migrate.model.half_safety.writes import written
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import FLOATING, NO_TENSOR, DType
from amp_migrate.model.tensors.spelling import spelled
from amp_migrate.rewrite.proof.receivers import receivers_of

_DEEP = 16


def fault_of_write(
    program: Program, cast: ast.Call, like: ast.expr, scope: Scope
) -> str | None:
    """Why a cast to the dtype of `like` may fail, or change a value with AMP off."""
    into = _written_into(program, cast, scope)
    if into is None or dotted_name(into) != dotted_name(like):
        return "nothing shows that its dtype is the same without AMP"
    assert isinstance(cast.func, ast.Attribute)
    receivers = receivers_of(program)
    given = program.precision.of(cast.func.value, scope)
    if given.container or not given.may_be_tensor:
        return "it may be no floating-point tensor"
    if not receivers.is_tensor(cast, scope):
        return "nothing shows that it is a tensor"
    held = program.precision.of(into, scope)
    is_other = held.container or held.dtypes & NO_TENSOR
    is_told = held.dtypes & FLOATING and not held.dtypes & DType.UNKNOWN
    if is_other or not (is_told or receivers.made(into, scope, _DEEP)):
        return f"nothing shows that `{ast.unparse(like)}` is a tensor"
    return None


def _written_into(
    program: Program, cast: ast.Call, scope: Scope
) -> ast.expr | None:
    """What a value is written into where it stands."""
    above = program.module.parents.get(cast)
    if isinstance(above, ast.keyword):
        above = program.module.parents.get(above)
    if isinstance(above, ast.Assign) and len(above.targets) == 1:
        target = above.targets[0]
        return target.value if isinstance(target, ast.Subscript) else None
    if not isinstance(above, ast.Call):
        return None
    found = spelled(program.precision.inference, above, scope)
    is_strict = found is not None and isinstance(found.op.strict, int)
    pair = written(above, found) if found is not None and is_strict else None
    if pair is None or pair[1] is not cast:
        return None
    return pair[0]
