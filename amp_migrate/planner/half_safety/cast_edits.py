"""Casts as edits: to float32, or to the dtype that the tensor has which a value is written into."""

from __future__ import annotations

import ast
import re

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.syntax.module import Module
from amp_migrate.rewrite.edits import Edit, ReplaceExpression, Template
from amp_migrate.rewrite.proof.receivers import receivers_of

_DEEP = 16
_FLOAT = "$0.float()"
_STRICT = "dtype-strict-inplace"
_CAST = r"\.float\(\)|\.to\([\w.]+\.dtype\)"
_CASTS = rf"\$0({_CAST})+"


def cast_edit(
    module: Module, expr: ast.expr, like: ast.expr | None = None
) -> ReplaceExpression:
    """`expr` becomes `expr.float()`, or `expr.to(like.dtype)`."""
    span = module.span(expr)
    text = _FLOAT
    if like is not None:
        name = ast.unparse(like)
        text = f"$0.to({name}.dtype)"
    return ReplaceExpression(span, Template(text, (span,)))


def has_dtype(asked: Asked, buffer: ast.expr) -> bool:
    """Whether the dtype of what is written can be asked for; what is seen to be half has one."""
    program = asked.inference.program
    home = program.module.scope_of(buffer)
    held = asked.fact(buffer, home)
    if held.seen_half:
        return True
    receivers = receivers_of(program)
    return receivers.made(buffer, home, _DEEP)


def put(
    casts: dict[ReplaceExpression, str], edit: ReplaceExpression, rule: str
) -> None:
    """One more cast. What is written where one call gives float32 and another half takes the dtype
    of what it is written into, which fits both.
    """
    for one, its_rule in casts.items():
        if one.target == edit.target:
            kept = _together(one, its_rule, edit, rule)
            del casts[one]
            casts[kept] = its_rule
            return
    casts[edit] = rule


def put_all(
    casts: dict[ReplaceExpression, str], more: dict[ReplaceExpression, str]
) -> None:
    """The casts that another search has found."""
    for edit, rule in more.items():
        put(casts, edit, rule)


def _together(
    one: ReplaceExpression,
    its_rule: str,
    other: ReplaceExpression,
    rule: str,
) -> ReplaceExpression:
    """The cast that does what both do."""
    if is_to_float(one) == is_to_float(other):
        return one
    wide, like = (one, other) if is_to_float(one) else (other, one)
    wants = its_rule if wide is one else rule
    if wants == _STRICT or like.replacement.text.startswith(_FLOAT):
        return like
    text = _FLOAT + called_in(like)
    return ReplaceExpression(one.target, Template(text, (one.target,)))


def is_to_float(edit: ReplaceExpression) -> bool:
    """Whether a cast is `.float()` alone."""
    return edit.replacement.text == _FLOAT


def called_in(edit: ReplaceExpression) -> str:
    """`.float()`: what a cast calls."""
    return edit.replacement.text.removeprefix("$0")


def casts_in(edit: Edit) -> int:
    """How many casts an edit adds."""
    if not isinstance(edit, ReplaceExpression):
        return 0
    text = edit.replacement.text
    whole = re.fullmatch(_CASTS, text)
    if whole is None:
        return 0
    found = re.findall(_CAST, text)
    return len(found)
