"""One inference for all that is asked of a file of which everything runs in one region, or outside
of all: what was found for one of its functions holds for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amp_migrate.model.tensors.inference import Inference

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


def all_in(program: Program, region: str | None) -> Inference:
    """The inference for a file of which nothing is assumed, cast or added; a new one where the last
    has little of its budget left, so that no question costs another its answer.
    """
    kept: list[Inference] = program.remembered((all_in, region), list)
    if not kept or kept[-1].is_spent:
        kept[:] = [Inference(program, lambda _: region, lambda _: None)]
    return kept[-1]
