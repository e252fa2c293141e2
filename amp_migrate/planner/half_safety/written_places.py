"""Where a tensor that is written in place becomes float32."""

from __future__ import annotations

import ast

from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.half_safety.written_tensors import homes, writer_of
from amp_migrate.planner.refusal import Refusal


def where_written(asked: Asked, expr: ast.expr, rule: str) -> list[ast.expr]:
    """The expressions to cast for `expr`: itself, but where a call writes into it, what makes it.
    Raises Refusal, under the name of the rule, where that is not in sight.
    """
    writer = writer_of(asked.inference.program, expr)
    if writer is None:
        return [expr]
    made = homes(asked, expr)
    if not made:
        raise Refusal(
            rule,
            writer,
            f"`{ast.unparse(expr)}` may be half precision where this writes into it, so a cast "
            "here would be written instead, and nothing shows that it is made for this alone",
        )
    return made
