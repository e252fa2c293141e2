"""What the step of an optimizer of the project takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amp_migrate.model.kinds import Value

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def takes_no_closure(program: Program, optimizer: Value) -> bool:
    """Whether the own step of a class in sight takes something else than a closure."""
    home, cls = optimizer.foreign or (program, optimizer.cls)
    step = home.graph.method(cls, "step") if cls is not None else None
    names = (
        [one.arg for one in home.scope(step).parameters()[1:]]
        if step is not None
        else []
    )
    return bool(names) and "closure" not in names
