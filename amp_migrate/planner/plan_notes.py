"""What a plan tells beside its loops: calls of which nothing was found, and scalers that callers
may leave out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module
from amp_migrate.outcome import Note
from amp_migrate.planner.regions.open_calls import OpenCall, is_guessed
from amp_migrate.planner.scaler_placement.placement import Wiring


def open_notes(
    program: Program, opened: Iterable[OpenCall]
) -> Iterator[tuple[Module, Note]]:
    """For each call in a region of which nothing in sight shows what it runs."""
    for call, scope in opened:
        if not is_guessed(program, (call, scope)):
            message = (
                f"nothing in sight shows what `{ast.unparse(call.func)}` runs: it was not "
                "looked at for what half precision breaks. Run `amp-migrate verify`"
            )
            note = Note(call.lineno, call.col_offset + 1, message)
            yield scope.module, note


def optional_notes(
    program: Program, wiring: Wiring
) -> Iterator[tuple[Module, Note]]:
    """For each function whose callers may leave out the scaler."""
    for key, one in wiring.optional.items():
        if one.closed and key in wiring.asking:
            continue
        left = (
            "neither save nor load its state"
            if key in wiring.asking
            else "stay in float32"
        )
        message = f"{one.why}: callers that pass no `{wiring.name}` {left}"
        place = one.function
        note = Note(place.lineno, place.col_offset + 1, message)
        yield program.scope(place).module, note
