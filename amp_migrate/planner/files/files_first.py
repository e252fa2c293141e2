"""Whether a loop needs other files for its scaler, asked before what it runs is looked at: with
these files, all of that is looked at again.
"""

from __future__ import annotations

from amp_migrate.planner.files.related_files import company
from amp_migrate.planner.loop import Loop
from amp_migrate.planner.refusal import Refusal
from amp_migrate.planner.scaler_placement.placement import Wiring


def refuse_without_files(wiring: Wiring, loop: Loop) -> None:
    """Raise Refusal where the scaler cannot be placed, and other files may help. Nothing is placed
    by it.
    """
    before = wiring.snapshot()
    try:
        for one in loop.steppers:
            optimizers = [step.optimizer for step in one.steps]
            wiring.provide(optimizers, one.scope, one.backwards)
    except Refusal as refusal:
        if company(refusal, loop.scope, wiring.program, wiring.project):
            raise
    finally:
        wiring.restore(before)
