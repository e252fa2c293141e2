"""The dtype of what an operator gives, from its row and its operands."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.tensors.bounds import negated
from amp_migrate.model.tensors.fact import (
    ARRAY,
    BFLOAT16,
    COMPLEX,
    DOUBLE,
    FLOAT,
    FLOAT16,
    INTEGER,
    NO_TENSOR,
    NUMBER,
    UNKNOWN,
    DType,
    Fact,
    Origin,
    join,
    origin_of,
    promoted,
    widest,
)
from amp_migrate.model.tensors.spelling import names_its_type
from amp_migrate.model.tensors.use import is_no_device
from amp_migrate.model.values.kinds import Kind
from amp_migrate.torch_facts import amp_api
from amp_migrate.torch_facts.ops import Kernels, Op, Policy, Trait, linalg

if TYPE_CHECKING:
    from amp_migrate.model.syntax.module import Scope
    from amp_migrate.model.tensors.inference import Inference

_FIXED = {
    "float32": FLOAT,
    "double": DOUBLE,
    "half": FLOAT16,
    "int": INTEGER,
    "bool": INTEGER,
    "number": NUMBER,
    "array": ARRAY,
}
_SOLVED = frozenset(
    row.name for row in linalg.ROWS if row.kernels is Kernels.NONE
)
"""Whatever is taken apart, the answer has to fit it to its last digits."""


def in_region(region: str) -> Fact:
    """What a region casts to; `half` where its dtype cannot be told."""
    return {"float16": FLOAT16, "bfloat16": BFLOAT16}.get(
        region, Fact(DType.HALF)
    )


def result(
    op: Op, policy: Policy, operands: list[Fact], region: str | None
) -> Fact:
    """What comes out of an operator. `region`: the dtype of the autocast that may be on."""
    made = _result(op, policy, operands, region)
    solved = op.name in _SOLVED
    return made._replace(
        origin=Origin.SOLVED if solved else origin_of(operands)
    )


def _result(
    op: Op, policy: Policy, operands: list[Fact], region: str | None
) -> Fact:
    if op.result in _FIXED:
        return _FIXED[op.result]
    if op.result == "complex":
        return COMPLEX
    made = _made(op, policy, operands, region)._replace(bounds=op.bounds)
    if made.dtypes & ~NO_TENSOR:
        made = made._replace(dtypes=made.dtypes & ~NO_TENSOR)
    if op.result == "values":
        return Fact(
            made.dtypes, (made._replace(elements=()), INTEGER), container=True
        )
    if op.result == "either":
        return made._replace(elements=(made, INTEGER))
    if op.result == "tuple":
        return Fact(made.dtypes, container=True)
    if op.result == "real" and DType.COMPLEX in made.dtypes:
        return FLOAT
    return made


def _made(
    op: Op, policy: Policy, operands: list[Fact], region: str | None
) -> Fact:
    known = [fact for fact in operands if fact.dtypes != DType.NONE]
    if op.always_breaks and any(fact.sparse for fact in known):
        return FLOAT
    if region is not None and policy in ("lower", "fp32"):
        cast = in_region(region) if policy == "lower" else FLOAT
        return _beside_double(cast, known)
    if op.result == "like":
        return known[0] if known else UNKNOWN
    if not known:
        return UNKNOWN
    if op.name in _SOLVED:
        known = [_without_half(one) for one in known]
    if op.traits & Trait.DIVIDES and len(known) == 2 and op.policy == "keeps":
        known = [
            INTEGER_QUOTIENT if fact.dtypes == DType.INTEGER else fact
            for fact in known
        ]
    is_cast = region is not None and policy == "promote"
    if is_cast or op.traits & Trait.WIDEST:
        return widest(known)
    return promoted(known)


def _beside_double(cast: Fact, operands: list[Fact]) -> Fact:
    """Autocast leaves float64 alone, and no operator multiplies it with another dtype."""
    if not operands or not all(one.may_be_double for one in operands):
        return cast
    if all(one.dtypes == DType.DOUBLE for one in operands):
        return DOUBLE
    return cast._replace(dtypes=cast.dtypes | DType.DOUBLE)


def _without_half(fact: Fact) -> Fact:
    """No solver takes half precision: where there is some, a cast is going to be."""
    if not fact.dtypes & DType.HALF:
        return fact
    return fact._replace(dtypes=fact.dtypes & ~DType.HALF | DType.FLOAT)


INTEGER_QUOTIENT = Fact(DType.FLOAT)


def named_dtype(
    inference: Inference, call: ast.Call, scope: Scope, *, first: bool = False
) -> Fact | None:
    """The dtype that a call asks for: `dtype=torch.float32`, `.to(x.dtype)`, `.to(other)`.

    Returns None where it asks for none. `first` counts positional arguments, too.
    """
    given = [one.value for one in call.keywords if one.arg == "dtype"]
    given += (
        [arg for arg in call.args if not isinstance(arg, ast.Starred)]
        if first
        else []
    )
    found = [
        fact
        for one in given
        if (fact := _dtype(inference, one, scope)) is not None
    ]
    return join(found) if found else None


def _dtype(inference: Inference, expr: ast.expr, scope: Scope) -> Fact | None:
    """What a dtype expression names; None for a device or a flag."""
    name = inference.program.canonical(expr) or ""
    if name in amp_api.HALVES:
        return FLOAT16 if amp_api.HALVES[name] == "float16" else BFLOAT16
    if name in amp_api.DOUBLES:
        return DOUBLE
    if name in amp_api.FLOATS:
        return FLOAT
    if name in amp_api.INTEGERS:
        return INTEGER
    if name in amp_api.COMPLEX:
        return COMPLEX
    if isinstance(expr, ast.Attribute) and expr.attr in ("dtype", "device"):
        return inference.of(expr.value, scope) if expr.attr == "dtype" else None
    if isinstance(expr, ast.Call) and names_its_type(expr):
        assert isinstance(expr.func, ast.Attribute)
        return inference.of(expr.func.value, scope)
    if isinstance(expr, ast.Constant) or name.startswith("torch."):
        return None
    handed = _handed(inference, expr) if isinstance(expr, ast.Name) else []
    if handed:
        return join(handed)
    value = inference.program.values.of(expr, scope)
    if value.kind in (Kind.DEVICE, Kind.DEVICE_NAME, Kind.INDEX):
        return None
    fact = inference.of(expr, scope)
    if fact.dtypes & NO_TENSOR or fact.dtypes == DType.UNKNOWN:
        # Mostly a device; a dtype that no one can follow is seldom handed on like this.
        is_tensor = is_no_device(inference.program, expr, scope)
        return UNKNOWN if is_tensor or not _called_device(expr) else None
    return fact


def _handed(inference: Inference, name: ast.Name) -> list[Fact]:
    """What callers pass as a `dtype`, where all of them say `x.dtype` or name one."""
    program = inference.program
    given: list[tuple[ast.expr, Scope]] = []
    for one in program.reaching.at(name, name.id).bindings:
        if one.how == "parameter":
            given += inference.passed(one)
        elif one.how == "assign" and one.index is None and one.value:
            given.append((one.value, program.module.scope_of(one.value)))
    plain = [
        (one, home) for one, home in given if not isinstance(one, ast.Name)
    ]
    found = [_dtype(inference, one, home) for one, home in plain]
    known = [one for one in found if one is not None]
    return known if len(known) == len(given) else []


def _called_device(expr: ast.expr) -> bool:
    last = (
        expr.attr
        if isinstance(expr, ast.Attribute)
        else getattr(expr, "id", "")
    )
    return "dtype" not in last and "type" not in last


def signed(op: ast.unaryop, fact: Fact) -> Fact:
    """What a sign in front makes of a value."""
    if isinstance(op, ast.USub):
        return fact._replace(bounds=negated(fact.bounds))
    return fact if isinstance(op, ast.UAdd) else fact._replace(bounds=None)
