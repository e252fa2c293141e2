"""What a call of a model or a loss runs that is one of several, as a method chose it:
`self.criterion` of `self.criterion = self.build(kind)`.
"""

from __future__ import annotations

import ast

from amp_migrate.model.forwards.losses import body_of, callables
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function, Scope
from amp_migrate.model.values.kinds import Kind

_RUN = (Kind.MODEL, Kind.CRITERION)


def bodies_of_several(
    program: Program, call: ast.Call, scope: Scope
) -> list[tuple[Program, Function]]:
    """The functions, with the program that each stands in."""
    if program.values.kind(call.func, scope) not in _RUN:
        return []
    found = callables(program, call, scope)
    bodies = [(one[0], body_of(one)) for one in found]
    return [(home, f) for home, f in bodies if isinstance(f, FUNCTIONS)]
