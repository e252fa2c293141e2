"""Files that use a function and that Python cannot parse: they can join no program, and what they
pass was not read.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

from amp_migrate.model.files.neighbours import unparsed_file
from amp_migrate.planner.refusal import Refusal


def refuse_unparsed(
    here: Path, users: list[str], node: ast.AST, used: str
) -> None:
    """Raise Refusal where a file can join no program: it is none."""
    for user in users:
        found = unparsed_file(user)
        if found is not None:
            near = os.path.relpath(user, here.parent)
            where = f"line {found.line}: {found.said}"
            what = f"{used} in {near}, which does not parse ({where})"
            raise Refusal(
                "syntax", node, f"{what}: what it passes was not read"
            )
