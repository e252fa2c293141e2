"""Moves that tell nothing where a scaler would be made: those that constants keep from being made,
`if USE_CUDA: net.cuda()` of `USE_CUDA = False`, and those of which nothing can be asked there.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from amp_migrate.model.conditions.constant_conditions import never_holds
from amp_migrate.model.program import Program
from amp_migrate.planner.devices.moves import Move
from amp_migrate.planner.refusal import Skip, place_of


def skip_never_moved(
    program: Program, moves: Sequence[Move], node: ast.AST
) -> None:
    """Raise Skip, at `node`, where none of a program's moves is ever made."""
    tests = [never_holds(program, move.call) for move in moves]
    test = next(iter(tests), None)
    if test is None or None in tests:
        return
    raise Skip(
        "cpu-only",
        node,
        f"what is moved to a GPU stands under `{ast.unparse(test)}` "
        f"({place_of(program, test)}), which never holds as the program is written: this loop "
        "runs on the CPU, where AMP gains nothing",
    )


def why_unread(program: Program, move: Move) -> str:
    """What cannot be asked where the scaler would be made."""
    what = f"`{ast.unparse(move.call)}` ({place_of(program, move.call)})"
    if move.device is not None and not isinstance(move.device, ast.Constant):
        lacks = "uses a device that has no name where the scaler would be made"
        return f"{what} {lacks}: make the optimizer after it, or keep the device in a variable"
    asked = "who calls it decides"
    if move.tests:
        test, written = move.tests[0], program.module.parents
        named = f"`{ast.unparse(test)}`" if test in written else "a condition"
        asked = f"{named} decides"
    return (
        f"{asked} whether {what} runs, which cannot be asked where the scaler would be made: make "
        "the optimizer after it, or hand on what decides"
    )
