"""Which dtypes NumPy arrays may have that become tensors: float64, where nothing says other."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType
from amp_migrate.torch_facts import ops

if TYPE_CHECKING:
    from amp_migrate.model.tensors.inference import Inference

_DEEP = 12
_ANY = DType.FLOAT | DType.DOUBLE | DType.INTEGER


def of_array(inference: Inference, expr: ast.expr, scope: Scope) -> DType:
    """The dtypes that an array, or a list of them, may have."""
    return _of(inference, expr, scope, _DEEP)


def _of(inference: Inference, expr: ast.expr, scope: Scope, deep: int) -> DType:
    if deep == 0:
        return _ANY
    if isinstance(expr, ast.Call):
        return _called(inference, expr, scope, deep)
    if isinstance(expr, ast.Subscript):
        return _of(inference, expr.value, scope, deep - 1)
    if isinstance(expr, ast.Attribute) and _keeps(expr.attr):
        return _of(inference, expr.value, scope, deep - 1)
    dotted = dotted_name(expr)
    if dotted is None:
        return _ANY
    found = DType.NONE
    module = inference.program.module
    for one in inference.program.reaching.at(expr, dotted).bindings:
        if one.how != "assign" or one.index is not None or one.value is None:
            return _ANY
        if one.value not in module.parents:
            return _ANY  # a base class of another file sets it
        home = module.scope_of(one.value)
        found |= _of(inference, one.value, home, deep - 1)
    return found or _ANY


def _called(
    inference: Inference, call: ast.Call, scope: Scope, deep: int
) -> DType:
    """By the dtype that is asked for; `x.numpy()` keeps that of the tensor."""
    canonical = inference.program.canonical(call.func) or ""
    named = _named(inference, call, canonical)
    if named is not None:
        return named
    func = call.func
    if not isinstance(func, ast.Attribute) or canonical:
        return _ANY
    if func.attr == "numpy":
        return inference.of(func.value, scope).dtypes & _ANY or _ANY
    if _keeps(func.attr):
        return _of(inference, func.value, scope, deep - 1)
    return _ANY


def _keeps(name: str) -> bool:
    """Whether an array gives another of its dtype by a method, as tensors do by that name."""
    found = ops.method(name)
    return name == "copy" or found is not None and found.op.result == "same"


def converts_exactly(inference: Inference, call: ast.Call) -> bool:
    """Whether a call turns an array into one of a dtype that is written there, other than half."""
    canonical = inference.program.canonical(call.func) or ""
    named = _named(inference, call, canonical)
    return named in (DType.FLOAT, DType.DOUBLE, DType.INTEGER)


def _named(
    inference: Inference, call: ast.Call, canonical: str
) -> DType | None:
    """`np.array(x, dtype=np.float32)`, `x.astype("float32")`, `np.float32(x)`."""
    asked = [one.value for one in call.keywords if one.arg == "dtype"]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "astype":
        asked += call.args[:1]
    names = [_name(inference, one) for one in asked] or [canonical]
    found = _BY_NAME.get(names[0].removeprefix("numpy."))
    if asked:
        return _ANY if found is None else found
    return found


def _name(inference: Inference, expr: ast.expr) -> str:
    if isinstance(expr, ast.Constant):
        return str(expr.value)
    return inference.program.canonical(expr) or dotted_name(expr) or ""


_BY_NAME = {
    "float32": DType.FLOAT,
    "float16": DType.FLOAT16,
    "float64": DType.DOUBLE,
    "float": DType.DOUBLE,
    **dict.fromkeys(
        ("int", "int8", "int16", "int32", "int64", "uint8", "bool", "bool_"),
        DType.INTEGER,
    ),
}
