"""What the step of an optimizer of the project takes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amp_migrate.model.values.kinds import Value

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def takes_no_closure(
    program: Program,
    optimizer: Value,
    args: Sequence[ast.expr],
    keywords: Sequence[ast.keyword],
) -> bool:
    """Whether the own step of a class in sight takes what it is given for something else than
    a closure: `step(beta=0.1)` of `def step(self, closure=None, beta=0)`.
    """
    home, cls = optimizer.foreign or (program, optimizer.cls)
    step = home.graph.method(cls, "step") if cls is not None else None
    if step is None or any(isinstance(one, ast.Starred) for one in args):
        return False
    names = [one.arg for one in home.scope(step).parameters()[1:]]
    given = [*names[: len(args)], *(one.arg for one in keywords)]
    return len(names) >= len(args) and all(
        name in names and name != "closure" for name in given
    )
