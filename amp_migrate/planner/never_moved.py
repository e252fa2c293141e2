"""Programs that constants keep on the CPU: `if USE_CUDA: net.cuda()` of `USE_CUDA = False`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from amp_migrate.model.constant_conditions import never_holds
from amp_migrate.model.program import Program
from amp_migrate.planner.device_moves import Move
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
