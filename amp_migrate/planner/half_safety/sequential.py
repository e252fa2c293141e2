"""A `nn.Sequential` in sight: `seq[-1](seq[:-1](x).float())` computes the same, and its last layer
in float32. So does `seq[-1](data_parallel(seq[:-1], x, ids).float())`, on one device.
"""

from __future__ import annotations

import ast

from amp_migrate.model.forwards.sequence_calls import sequences
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.rewrite.edits import Template


def is_sequential(program: Program, call: ast.Call, scope: Scope) -> str | None:
    """The name of the Sequential that a call runs, whatever it ends in; None where it may be
    something else.
    """
    return next(iter(sequences(program, call, scope)), (None,))[0]


def split_call(program: Program, call: ast.Call, name: str) -> Template:
    """`seq[-1](seq[:-1](x).float())` for `seq(x)`."""
    span = program.module.span
    if dotted_name(call.func) == name:
        text = f"{name}[-1]({name}[:-1]($0).float())"
        return Template(text, (span(call.args[0]),))
    parts = [call.func, *call.args[1:], *(k.value for k in call.keywords)]
    words = [f"${i}" for i in range(1, len(call.args))]
    words += [
        f"{k.arg}=${i}"
        for i, k in enumerate(call.keywords, start=len(call.args))
    ]
    text = f"{name}[-1]($0({name}[:-1], {', '.join(words)}).float())"
    return Template(text, tuple(span(one) for one in parts))
