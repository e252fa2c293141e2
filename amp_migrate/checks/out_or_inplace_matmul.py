"""A matrix product writes into a given tensor, which autocast does not cast."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.config import Settings
from amp_migrate.lint.finding import Finding, Rule, finding_at
from amp_migrate.model.program import Program

RULE = Rule("out=-or-inplace-matmul", severity="warning")
_PRODUCTS = {
    f"torch.{name}" for name in ("mm", "bmm", "matmul", "addmm", "baddbmm", "addbmm", "mv", "addmv", "linalg.matmul")
}
_IN_PLACE = {"addmm_", "addbmm_", "baddbmm_", "addmv_", "addr_"}
_MESSAGE = (
    "autocast leaves this alone: it raises if one operand is half precision, else it runs in float32; use the {form}"
)


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Products with `out=`, and those in place, in a region."""
    if not program.regions.regions:
        return
    for scope in program.module.scopes.values():
        for call in scope.calls:
            form = _form(program, call)
            if form is not None and program.regions.enabled_around(call) is not None:
                yield finding_at(program, call, RULE, _MESSAGE.format(form=form))


def _form(program: Program, call: ast.Call) -> str | None:
    name = program.canonical(call.func)
    if name is not None:
        out = any(one.arg == "out" for one in call.keywords)
        return "product without `out=`" if name in _PRODUCTS and out else None
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in _IN_PLACE
    return "form without the underscore" if is_method else None
