"""Half tensors that are written with float32: `out = cosine * 1.0; out[rows, labels] = margin`.

A cast where the write stands would write to a copy; so the tensor is made float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.half_safety.hazard import Asked, Hazard
from amp_migrate.model.half_safety.shared_dtypes import share_dtype
from amp_migrate.model.names import dotted_name
from amp_migrate.model.syntax import Binding, Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.model.tensors.spelling import spelled

_RULE = "dtype-strict-inplace"


def written_with_float(
    asked: Asked,
    node: ast.AST,
    buffer: ast.expr,
    value: ast.expr,
    scope: Scope,
    part: int | None = None,
) -> Iterator[Hazard]:
    """The write, where the tensor may be half and the value is float32 on a path in sight; `part`:
    where the value is one of those that a call gives together.
    """
    held, given = asked.fact(buffer, scope), asked.fact(value, scope)
    if part is not None:
        given = given.element(part)
    is_float = DType.FLOAT in given.dtypes and not given.dtypes & ~(
        DType.FLOAT | DType.HALF
    )
    if not (held.seen_half and is_float) or given.container:
        return
    if not share_dtype(asked, buffer, value):
        message = (
            f"`{ast.unparse(buffer)}` is half precision, and a write by "
            "index converts nothing"
        )
        yield Hazard(_RULE, node, tuple(_makers(asked, buffer)), message)


def _makers(asked: Asked, buffer: ast.expr) -> list[ast.expr]:
    """The expressions that make the tensor; none where it may be a view, or comes from afar: a cast
    of those would be another tensor.
    """
    dotted = dotted_name(buffer)
    program = asked.inference.program
    bindings = (
        program.reaching.at(buffer, dotted).bindings
        if dotted is not None
        else ()
    )
    return (
        [one.value for one in bindings if one.value is not None]
        if _fresh(asked, bindings)
        else []
    )


def _fresh(asked: Asked, bindings: tuple[Binding, ...]) -> bool:
    return all(
        one.how == "assign" and one.index is None and _is_fresh(asked, one)
        for one in bindings
    )


def _is_fresh(asked: Asked, binding: Binding) -> bool:
    made = binding.value
    if isinstance(made, ast.BinOp):
        return True
    if not isinstance(made, ast.Call):
        return False
    if isinstance(made.func, ast.Attribute) and made.func.attr == "clone":
        return True
    found = spelled(
        asked.inference, made, asked.inference.program.module.scope_of(made)
    )
    return found is not None and (
        found.policy != "keeps"
        or found.op.result == "like"
        and found.form != "in-place"
    )
