"""A flag is passed to `torch.autocast` by position, where it lands in `dtype`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._switches import is_switch
from amp_migrate.config import Settings
from amp_migrate.model.autocast.regions import NEW
from amp_migrate.model.program import Program
from amp_migrate.rewrite.edits import ReplaceExpression, Template

RULE = Rule("positional-enabled-in-autocast", severity="error")
_MESSAGE = (
    "the second parameter is `dtype`, so this flag raises on a GPU and switches autocast "
    "off on a CPU: write `enabled=`"
)


def check(
    program: Program,
    settings: Settings,
) -> Iterator[Finding]:
    """A second positional argument that is a truth value."""
    for call, scope in program.uses.calls(*NEW):
        starred = any(isinstance(one, ast.Starred) for one in call.args)
        if len(call.args) < 2 or starred:
            continue
        flag = call.args[1]
        if is_switch(program, flag, scope):
            yield finding_at(
                program, flag, RULE, _MESSAGE, fix=_fix(program, call)
            )


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
