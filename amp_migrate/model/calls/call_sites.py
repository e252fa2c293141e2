"""A call of a function in sight."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import Scope
from amp_migrate.records import NamedTuple


class CallSite(NamedTuple):
    """One call of a function in sight, and the scope that evaluates it."""

    call: ast.Call
    scope: Scope
    bound: bool
    """Whether the first parameter (`self`) is given by the call's receiver."""
