"""A matrix product writes into a given tensor, which autocast does not cast."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.methods import WIDENS
from amp_migrate.torch_facts.ops import EVERY

RULE = Rule("out=-or-inplace-matmul", severity="warning")
_MESSAGE = (
    "autocast leaves this alone: it raises if one operand is half precision, else it runs "
    "in float32; use the {form}"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Products with `out=`, and those in place, in a region."""
    if not program.regions.regions:
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            form = _form(program, call)
            if (
                form is not None
                and program.regions.enabled_around(call) is not None
                and not _is_of_casts(call)
            ):
                yield finding_at(
                    program, call, RULE, _MESSAGE.format(form=form)
                )


def _form(program: Program, call: ast.Call) -> str | None:
    name = program.canonical(call.func)
    if name is not None:
        found = ops.function(name)
        out = any(one.arg == "out" for one in call.keywords)
        is_product = found is not None and found.op.policy == "lower"
        return "product without `out=`" if is_product and out else None
    found = (
        ops.method(call.func.attr)
        if isinstance(call.func, ast.Attribute)
        else None
    )
    in_place = (
        found is not None
        and found.form == "in-place"
        and found.op.strict == EVERY
    )
    return "form without the underscore" if in_place else None


def _is_of_casts(call: ast.Call) -> bool:
    """`distances.addmm_(x.float(), x.t().float())`: float32 is what was asked for."""
    return bool(call.args) and all(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr in WIDENS
        for one in call.args
    )
