"""What breaks in half precision, and the cast that mends it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import DType, Fact
from amp_migrate.model.tensors.inference import Inference
from amp_migrate.model.values.literals import number
from amp_migrate.records import NamedTuple


class Hazard(NamedTuple):
    """One operation that breaks, or gives other values, where it gets half precision.

    `casts` are the expressions that mend it as `x.float()`; without any, nothing written there
    mends it. `message` says what breaks.
    """

    rule: str
    node: ast.AST
    casts: tuple[ast.expr, ...]
    message: str
    certain: bool = True
    """Whether the operands are half on a path in sight; else nothing in sight excludes it."""
    split: ast.Call | None = None
    """A call of an `nn.Sequential` whose last layer must get float32 from the others."""
    demanded: bool = False
    """Whether the program itself tests for it, wherever it does."""
    spoils: bool = False
    """Of what must be computed with autocast off: whether nothing else will do."""
    files: tuple[str, ...] = ()
    """Other files of the project, in which something may be written that mends it."""
    like: ast.expr | None = None
    """The tensor that is written: the casts give its dtype, which is not the same on all paths."""


class Asked(NamedTuple):
    """What the searches share: the inference, and whether the half type is float16."""

    inference: Inference
    float16: bool = True
    """False leaves out what only float16's range forbids: bfloat16 has float32's."""

    def fact(self, expr: ast.expr, scope: Scope) -> Fact:
        """What an expression may be."""
        return self.inference.of(expr, scope)

    def needs_cast(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether an operand of an operator, which is a tensor or a number, may be half."""
        return (
            self.fact(expr, scope).may_be_half and number(expr, scope) is None
        )


def is_double(asked: Asked, given: Iterable[ast.expr], scope: Scope) -> bool:
    """Whether an operand is of a dtype that autocast leaves alone."""
    rounded = DType.FLOAT | DType.HALF | DType.UNKNOWN
    facts = (asked.fact(one, scope) for one in given)
    return any(not fact.dtypes & rounded for fact in facts)
