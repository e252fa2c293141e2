"""Functions that save or load states and may be called without a scaler: they ask for it where
they use it.
"""

from __future__ import annotations

from amp_migrate.model.steps.events import TRAINING, EventKind
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.scaler_placement.placement import Wiring
from amp_migrate.records import NamedTuple
from amp_migrate.rewrite.edits import AddArgument, Edit

_NEEDS = TRAINING | EventKind.FORWARD | EventKind.CALLABLE


class StateUse(NamedTuple):
    """What saves or loads the scaler's state in a scope, and what does so where there is one."""

    scope: Scope
    plain: Edit
    asking: Edit


def settled(uses: list[StateUse], wiring: Wiring) -> list[Edit]:
    """The edits of all uses; a function that got the scaler for nothing else needs none made."""
    edits: dict[Edit, None] = {}
    for use in uses:
        asks = _asks(use.scope, wiring)
        edits[use.asking if asks else use.plain] = None
    for use in uses:
        if _asks(use.scope, wiring):
            wiring.asking.add(id(use.scope.node))
    for one in wiring.asking:
        wiring.edits.pop(wiring.optional[one].prologue, None)
    return list(edits)


def _asks(scope: Scope, wiring: Wiring) -> bool:
    """Whether a function asks for a scaler that callers may leave out."""
    found = wiring.optional.get(id(scope.node))
    if found is None:
        return False
    if wiring.program.effects.of_function(found.function) & _NEEDS:
        return False
    whole = wiring.program.module.span(found.function)
    return not any(
        isinstance(edit, AddArgument)
        and whole.start <= edit.call.start < whole.end
        for edit in wiring.edits
    )
