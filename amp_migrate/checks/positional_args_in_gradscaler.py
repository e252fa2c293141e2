"""The initial scale is passed to `torch.amp.GradScaler` by position, where it lands in `device`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.checks._switches import is_switch
from amp_migrate.config import Settings
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.settings.command_line import option_of
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.literals import number
from amp_migrate.model.values.numbers import numbers
from amp_migrate.rewrite.edits import ReplaceExpression, Template
from amp_migrate.torch_facts.amp_api import SCALE

RULE = Rule("positional-args-in-GradScaler", severity="error")
_MESSAGE = (
    "the first parameter is the device, so this value is ignored without a word, and the "
    "scaler's factor starts at 65,536: write `init_scale=`"
)
_DEVICE = (
    "the first parameter of the old GradScaler is `init_scale`, so this device raises when the "
    "first loss is scaled: use `torch.amp.GradScaler`, or leave it out"
)
_FLAG = (
    "the first parameter is the device, so this flag is ignored without a "
    "word: write `enabled=`"
)
_SCALE = (
    "the first parameter of the old GradScaler is `init_scale`, so this flag makes the factor 1, "
    "or 0, and switches nothing: write `enabled=`"
)
_OLD = ("torch.cuda.amp.GradScaler", "torch.cpu.amp.GradScaler")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """A number or a truth value where the device belongs, or the device where the scale does."""
    for call, scope in program.uses.calls(
        "torch.amp.GradScaler", "torch.GradScaler"
    ):
        if not call.args or isinstance(call.args[0], ast.Starred):
            continue
        if is_switch(program, call.args[0], scope):
            yield finding_at(
                program,
                call.args[0],
                RULE,
                _FLAG,
                fix=_fix(program, call, ("enabled",)),
            )
        elif _is_number(program, call.args[0], scope):
            yield finding_at(
                program,
                call.args[0],
                RULE,
                _MESSAGE,
                fix=_fix(program, call, SCALE),
            )

    for call, scope in program.uses.calls(*_OLD):
        first = call.args[0] if call.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield finding_at(program, first, RULE, _DEVICE)
        elif first is not None and is_switch(program, first, scope):
            yield finding_at(program, first, RULE, _SCALE)


def _is_number(program: Program, given: ast.expr, scope: Scope) -> bool:
    """Whether a number is in sight behind an argument, or the command line makes it one, or it is
    compared with one.
    """
    if numbers(program, given, scope):
        return True
    name = dotted_name(given)
    option = option_of(program, given, name) if name is not None else None
    kinds = (
        (one.value for one in option.keywords if one.arg == "type")
        if option
        else ()
    )
    if any(
        isinstance(one, ast.Name) and one.id in ("int", "float")
        for one in kinds
    ):
        return True
    return name is not None and any(
        isinstance(node, ast.Compare)
        and dotted_name(node.left) == name
        and isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))
        and number(node.comparators[0], scope) is not None
        for node in nodes_in(scope.node)
    )


def _fix(
    program: Program, call: ast.Call, order: tuple[str, ...]
) -> Fix | None:
    names = {one.arg for one in call.keywords}
    given = list(zip(order, call.args, strict=False))
    if (
        len(call.args) > len(order)
        or None in names
        or names & {"device", *(name for name, _ in given)}
    ):
        return None
    pairs = [*given, *((str(one.arg), one.value) for one in call.keywords)]
    module = program.module
    parts = [
        module.span(call.func),
        *(module.span(value) for _, value in pairs),
    ]
    said = ", ".join(
        f"{name}=${index}" for index, (name, _) in enumerate(pairs, 1)
    )
    edit = ReplaceExpression(
        module.span(call), Template(f'$0("cuda", {said})', tuple(parts))
    )
    return Fix(
        "safe", "name the device, and pass the arguments by keyword", (edit,)
    )
