"""What runs behind a statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.program import Program

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def following(program: Program, statement: ast.stmt) -> Iterator[ast.stmt]:
    """The rest of its block and, of an arm of an `if` or of what a `with` holds, what comes behind
    that.
    """
    block = program.module.block_of(statement)
    yield from block[
        next(i for i, s in enumerate(block) if s is statement) + 1 :
    ]
    above = program.module.parents[statement]
    if isinstance(above, (ast.If, ast.With)) and not isinstance(
        block[-1], _LEAVES
    ):
        yield from following(program, above)
