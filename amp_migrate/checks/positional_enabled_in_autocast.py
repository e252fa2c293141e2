"""A flag is passed to `torch.autocast` by position, where it lands in `dtype`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._plans import AMP_NAMES
from amp_migrate.config import Settings
from amp_migrate.model.autocast.dtype_choices import dtype_choices
from amp_migrate.model.autocast.regions import NEW
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.literals import is_flag
from amp_migrate.rewrite.edits import ReplaceExpression, Template

RULE = Rule("positional-enabled-in-autocast", severity="error")
_MESSAGE = (
    "the second parameter is `dtype`, so this flag raises on a GPU and switches autocast "
    "off on a CPU: write `enabled=`"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """A second positional argument that is a truth value."""
    for call, scope in program.uses.calls(*NEW):
        starred = any(isinstance(one, ast.Starred) for one in call.args)
        if len(call.args) < 2 or starred:
            continue
        flag = call.args[1]
        if is_flag(program, flag, scope) or _switches(program, flag, scope):
            yield finding_at(
                program, flag, RULE, _MESSAGE, fix=_fix(program, call)
            )


def _switches(program: Program, expr: ast.expr, scope: Scope) -> bool:
    """Whether the same variable is what switches a scaler or another region: `enabled=args.amp`."""
    name = dotted_name(expr)
    if name is None or dtype_choices(program, expr, scope) is not None:
        return False
    return any(
        given.arg == "enabled"
        and dotted_name(given.value) == name
        and _home(program, name, where)
        is _home(program, name, scope)
        is not None
        for call, where in program.uses.calls(*AMP_NAMES)
        for given in call.keywords
    )


def _home(program: Program, name: str, scope: Scope) -> object:
    """What a variable, or an attribute of the object, belongs to."""
    head, _, rest = name.partition(".")
    if rest and head == scope.self_name:
        return program.graph.class_around(scope)
    return scope.lookup(head)


def _fix(program: Program, call: ast.Call) -> Fix | None:
    if len(call.args) != 2 or any(
        one.arg in ("enabled", None) for one in call.keywords
    ):
        return None
    # The whole call is written anew: an edit of an argument cannot make a keyword of it.
    module = program.module
    parts = [
        module.span(one)
        for one in [
            call.func,
            *call.args,
            *(one.value for one in call.keywords),
        ]
    ]
    said = [
        "$1",
        "enabled=$2",
        *(f"{one.arg}=${index + 3}" for index, one in enumerate(call.keywords)),
    ]
    edit = ReplaceExpression(
        module.span(call), Template(f"$0({', '.join(said)})", tuple(parts))
    )
    return Fix("safe", "pass the flag as `enabled=`", (edit,))
