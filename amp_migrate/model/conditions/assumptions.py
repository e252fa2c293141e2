"""Which settings make a value one dtype, and whether code runs under such a setting: `args.bf16`,
`config.precision == "bf16"`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.autocast.dtype_choices import (
    Choices,
    bound,
    dtype_choices,
    keys_of,
    property_values,
)
from amp_migrate.model.conditions.arms import arms
from amp_migrate.model.conditions.decisions import Asked
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope, returned
from amp_migrate.records import NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 4


class Case(NamedTuple):
    """One setting that has one value."""

    subject: str
    value: object


def cases(
    program: Program,
    expr: ast.expr,
    scope: Scope,
    wanted: str,
    hops: int = _HOPS,
) -> Iterator[Case]:
    """The settings under which an expression is the dtype `wanted`, and nothing else."""
    only: Choices = frozenset({wanted})
    if isinstance(expr, ast.IfExp):
        for value, holds in ((expr.body, True), (expr.orelse, False)):
            if dtype_choices(program, value, scope) == only:
                yield from _said(program, expr.test, scope, holds)
            elif hops:
                yield from cases(program, value, scope, wanted, hops - 1)
        return
    looked_up = keys_of(program, expr, scope, wanted)
    if looked_up is not None:
        subject = _subject(program, looked_up[0], scope)
        if subject is not None:
            yield from (Case(subject, key) for key in looked_up[1])
        return
    for value, where in _values(program, expr, scope) if hops else ():
        if dtype_choices(program, value, where) == only:
            for test, holds in arms(program, value, where.node):
                yield from _said(program, test, where, holds)
        else:
            yield from cases(program, value, where, wanted, hops - 1)


def runs_in(
    program: Program, node: ast.AST, enabled: ast.expr | None, case: Case
) -> bool:
    """Whether `node`, which may be switched by `enabled`, is on for a setting, and something there
    asks for that setting.
    """
    scope = program.module.scope_of(node)
    told = [
        (truth(program, test, scope, case), holds)
        for test, holds in arms(program, node, scope.node)
    ]
    if any(said is not None and said is not holds for said, holds in told):
        return False
    if enabled is None:
        return any(said is not None for said, _ in told)
    said = truth(program, enabled, scope, case)
    if said is False:
        return False
    return any(
        truth(program, one, scope, case) for one in _conjuncts(enabled)
    ) or (said is None and any(one is not None for one, _ in told))


def truth(
    program: Program, test: ast.expr, scope: Scope, case: Case
) -> bool | None:
    """What a test comes to under a setting; None where that does not say."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        said = truth(program, test.operand, scope, case)
        return None if said is None else not said
    if isinstance(test, ast.BoolOp):
        parts = [truth(program, one, scope, case) for one in test.values]
        ends = isinstance(test.op, ast.Or)
        if any(one is ends for one in parts):
            return ends
        return None if None in parts else not ends
    if isinstance(test, ast.Compare):
        return _compared(program, test, scope, case)
    same = _subject(program, test, scope) == case.subject
    return bool(case.value) if same else None


def _compared(
    program: Program, test: ast.Compare, scope: Scope, case: Case
) -> bool | None:
    known = _literal(test.comparators[0])
    if len(test.ops) > 1 or known is None or isinstance(case.value, bool):
        return None
    if _subject(program, test.left, scope) != case.subject:
        return None
    among = known if isinstance(known, (list, tuple, set)) else (known,)
    match test.ops[0]:
        case ast.Eq() | ast.In():
            return case.value in among
        case ast.NotEq() | ast.NotIn():
            return case.value not in among
    return None


def _said(
    program: Program, test: ast.expr, scope: Scope, holds: bool
) -> Iterator[Case]:
    """The settings for which a test holds, or fails."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _said(program, test.operand, scope, not holds)
    elif isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is holds:
            for one in test.values:
                yield from _said(program, one, scope, holds)
    elif isinstance(test, ast.Compare):
        subject = _subject(program, test.left, scope)
        known = _literal(test.comparators[0])
        positive = isinstance(test.ops[0], (ast.Eq, ast.In))
        if subject is None or known is None or positive is not holds:
            return
        among = known if isinstance(known, (list, tuple, set)) else (known,)
        yield from (Case(subject, value) for value in among)
    else:
        subject = _subject(program, test, scope)
        if subject is not None:
            yield Case(subject, holds)


def _conjuncts(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for one in test.values:
            yield from _conjuncts(one)
    else:
        yield test


def _literal(expr: ast.expr) -> object:
    try:
        return ast.literal_eval(expr)
    except (ValueError, TypeError, RecursionError):
        return None


def _values(program: Program, expr: ast.expr, scope: Scope) -> Iterator[Asked]:
    """What a variable is given, a function returns, or a property."""
    if isinstance(expr, ast.Call):
        function = program.values.callee(expr, scope)
        if function is not None:
            home = program.scope(function)
            yield from ((value, home) for value in returned(function))
        return
    found = bound(program, expr, scope) or property_values(program, expr, scope)
    for value, _ in found or ():
        yield value, program.module.scope_of(value)


def _subject(
    program: Program, expr: ast.expr, scope: Scope, hops: int = _HOPS
) -> str | None:
    """The setting that an expression reads, named alike wherever an object keeps it."""
    if isinstance(expr, ast.Subscript):
        inner = _subject(program, expr.value, scope, hops)
        return None if inner is None else f"{inner}[{ast.unparse(expr.slice)}]"
    name = dotted_name(expr)
    if name is None:
        return None
    head, _, rest = name.partition(".")
    if head == scope.self_name and rest:
        head, _, rest = rest.partition(".")
        kept = bound(program, _attribute(expr), scope)
    else:
        home = scope.lookup(head)
        held = home.bindings.get(head, []) if home is not None else []
        kept = [(b.value, home) for b in held if b.value and home]
        kept = kept if all(b.how == "assign" for b in held) else []
    if kept and len(kept) == 1 and hops and dotted_name(kept[0][0]):
        inner = _subject(
            program, kept[0][0], _where(program, kept[0]), hops - 1
        )
        head = inner or head
    return f"{head}.{rest}" if rest else head


def _where(program: Program, kept: Asked) -> Scope:
    return program.module.scope_of(kept[0])


def _attribute(expr: ast.expr) -> ast.expr:
    """`self.config` of `self.config.training.dtype`"""
    while isinstance(expr, ast.Attribute) and not isinstance(
        expr.value, ast.Name
    ):
        expr = expr.value
    return expr
