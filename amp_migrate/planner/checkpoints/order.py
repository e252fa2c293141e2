"""Whether a state is saved or loaded before the scaler that it belongs to is made."""

from __future__ import annotations

import ast

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import LOOPS, Scope

_LATER = "the scaler's state is not saved or loaded here"


def made_later(
    program: Program,
    call: ast.Call,
    scope: Scope,
    places: list[tuple[Scope, ast.stmt, bool]],
) -> str | None:
    """Why the scaler that `places` make is not there yet where `call` saves or loads the state of
    its optimizer: all of them stand behind it, in no loop with it.
    """
    around = set(program.module.ancestors(call))
    late = [
        where is scope
        and call.lineno < one.lineno
        and not any(
            isinstance(loop, LOOPS) and loop in around
            for loop in program.module.ancestors(one)
        )
        for where, one, _ in places
    ]
    if not late or not all(late):
        return None
    assert isinstance(call.func, ast.Attribute)
    optimizer = call.func.value
    reach = program.reaching.own(optimizer, dotted_name(optimizer) or "")
    if reach is not None and not reach.bindings:
        name = ast.unparse(optimizer)
        return f"{_LATER}: `{name}` has no value yet, it is made below"
    return f"{_LATER}: the scaler is made below"
