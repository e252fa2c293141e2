"""Autocast is used without parentheses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._code import Code
from amp_migrate.checks._finding import Finding, Fix, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.autocast.contexts import AUTOCAST
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS

RULE = Rule("autocast-not-called", severity="error")


def check(program: Program, settings: Settings) -> Iterator[Finding]:
    """Find the bare class in a `with` or as a decorator."""
    if "autocast" not in program.module.text:
        return
    message = "autocast needs parentheses: the class itself is neither a context nor a decorator"
    for node in program.module.parents:
        named: list[ast.expr] = []
        if isinstance(node, ast.withitem):
            named = [node.context_expr]
        elif isinstance(node, FUNCTIONS):
            named = node.decorator_list
        for expr in named:
            if (
                not isinstance(expr, ast.Call)
                and program.canonical(expr) in AUTOCAST
            ):
                yield finding_at(
                    program, expr, RULE, message, fix=_fix(program, expr)
                )


def _fix(program: Program, expr: ast.expr) -> Fix | None:
    name = program.canonical(expr) or ""
    torch = program.module.imports.local("torch")
    if name.startswith("torch.cuda.amp."):
        arguments = ""
    elif torch is not None:
        arguments = f'"cuda", dtype={torch}.float16'
    else:
        return None
    return Fix(
        "safe",
        "call it",
        (Code(program, expr).replace(expr, f"$0({arguments})", expr),),
    )
