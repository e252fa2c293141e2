"""What had switched apex on, by the scope that asked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from amp_migrate.apex.initialize import (
    Initialize,
    both,
    condition,
    level_switch,
    optimizer_statement,
    tests_above,
    tight,
)
from amp_migrate.apex.refused import Refused
from amp_migrate.apex.statements import Statements
from amp_migrate.model.syntax.module import Module, Scope

_DIFFER = (
    "`amp.initialize` is called under different conditions here, so it cannot be told when one "
    "scaler for all should be on: call it in one place"
)


def switches(walk: Statements) -> dict[str, tuple[str, ...]]:
    """By scope, the texts that mean that apex was on.

    Raises:
        Refused: calls that may all run were switched on by different conditions.
    """
    module, seen = walk.module, walk.seen
    trained = [one for one in seen.initialized if one[0].trains]
    called: dict[str, list[tuple[ast.stmt, tuple[str, ...]]]] = {}
    for call, statement in trained or seen.initialized:
        scope = module.scope_of(statement)
        if not call.is_off:
            asked = _combined([*_asked(walk, call, statement, scope)])
            called.setdefault(scope.qualname, []).append((statement, asked))
    for node in seen.scaled if not seen.initialized else ():
        scope = module.scope_of(node)
        tests = [
            _tested(walk, test, way, scope)
            for test, way in tests_above(module, node, None)
            if test in seen.merged
        ]
        if tests:
            called.setdefault(scope.qualname, [(node, _combined(tests))])
    found = {scope: _any_of(module, calls) for scope, calls in called.items()}
    return {scope: texts for scope, texts in found.items() if texts}


def _asked(
    walk: Statements, call: Initialize, statement: ast.stmt, scope: Scope
) -> Iterator[list[str]]:
    """What a call asks, each with its alternatives: the tests above, the level, `enabled`."""
    module = walk.module
    made = optimizer_statement(module, call, statement, scope)
    for test, way in _told(tests_above(module, statement, made)):
        yield _tested(walk, test, way, scope)
    level = level_switch(module, call.level, scope)
    if level:
        yield level
    enabled = call.argument("enabled")
    if enabled is not None and ast.unparse(enabled) != "True":
        yield condition(module, enabled, scope)


def _told(tests: list[tuple[ast.expr, bool]]) -> list[tuple[ast.expr, bool]]:
    """The tests without those that a later one includes: `x == 1` tells `not x == 0`."""
    return [
        (test, way)
        for place, (test, way) in enumerate(tests)
        if way or not any(_tells(*one, test) for one in tests[place + 1 :])
    ]


def _tells(test: ast.expr, way: bool, other: ast.expr) -> bool:
    """Whether a test says of a value that it is one constant, and the other one another."""
    ours, theirs = _equated(test), _equated(other)
    return (
        way
        and ours is not None
        and theirs is not None
        and ours[0] == theirs[0]
        and ours[1] != theirs[1]
    )


def _equated(test: ast.expr) -> tuple[str, object] | None:
    """The text and the constant of `x == 1`."""
    match test:
        case ast.Compare(
            left=left,
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=value)],
        ):
            return ast.unparse(left), value
    return None


def _any_of(
    module: Module, calls: list[tuple[ast.stmt, tuple[str, ...]]]
) -> tuple[str, ...]:
    """What is true where one of the calls of a scope switches apex on; empty: always."""
    texts = list(dict.fromkeys(asked for _, asked in calls))
    if len(texts) == 1:
        return texts[0]
    statements = [statement for statement, _ in calls]
    for place, (statement, _) in enumerate(calls):
        if not all(
            _are_exclusive(module, statement, other)
            for other in statements[:place]
        ):
            raise Refused("apex-form", statement, _DIFFER)
    if not all(texts):
        return ()
    return (" or ".join(_summand(one[0]) for one in texts),)


def _are_exclusive(
    module: Module,
    one: ast.stmt,
    other: ast.stmt,
) -> bool:
    ways = dict(tests_above(module, one, None))
    return any(
        ways.get(test, way) != way
        for test, way in tests_above(module, other, None)
    )


def _summand(text: str) -> str:
    expr = ast.parse(text, mode="eval").body
    loose = isinstance(expr, (ast.IfExp, ast.Lambda, ast.NamedExpr))
    return f"({text})" if loose else text


def _tested(
    walk: Statements, test: ast.expr, way: bool, scope: Scope
) -> list[str]:
    """What a condition around a call of apex says, without asking whether apex is there; nothing
    where that is all.
    """
    if walk.expressions.truth(test) is not None:
        return [""]
    plain = walk.expressions.test(test, [])
    if way and _is_text(walk.module, plain):
        return [f"bool({ast.unparse(plain)})"]
    return (
        condition(walk.module, plain, scope) if way else [f"not {tight(plain)}"]
    )


def _is_text(module: Module, expr: ast.expr) -> bool:
    """Whether an option of the command line holds no bool: `enabled=` wants one."""
    name = expr.attr if isinstance(expr, ast.Attribute) else ""
    option = re.search(
        rf"add_argument\([^()]*['\"]--{re.escape(name).replace('_', '[-_]')}['\"][^()]*\)",
        module.text,
    )
    return (
        bool(name)
        and option is not None
        and re.search(r"store_(true|false)|bool", option[0]) is None
    )


def _combined(asked: list[list[str]]) -> tuple[str, ...]:
    """Every combination of the alternatives, those by the nearest definitions first."""
    texts = [""]
    for alternatives in asked:
        texts = [
            both(text, one) if text and one else text or one
            for text in texts
            for one in alternatives
        ]
    return tuple(dict.fromkeys(text for text in texts if text))
