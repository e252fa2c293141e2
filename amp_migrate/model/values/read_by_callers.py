"""Attributes of what a function is handed that each of its callers reads in any case, a few
statements later at the latest: reading one in the function fails in no run that would have gone on.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.arguments import argument
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import FUNCTIONS, Scope

if TYPE_CHECKING:
    from amp_migrate.model.dataflow.reaching import Reaching


def is_read_by_callers(reaching: Reaching, scope: Scope, dotted: str) -> bool:
    """Whether `args.cuda` is, of a parameter that holds all the while what callers passed."""
    head, _, rest = dotted.partition(".")
    function, entry = scope.node, reaching.entry
    if not (
        isinstance(function, FUNCTIONS) and rest and head in scope.bindings
    ):
        return False
    if any(one.how != "parameter" for one in scope.bindings[head]):
        return False
    sites = entry.sites(function)
    given = [argument(call, scope, head, bound) for call, _, bound in sites]
    return (
        bool(given)
        and entry.is_followed(function)
        and all(_is_read(reaching, one, rest) for one in given)
    )


def _is_read(reaching: Reaching, given: ast.expr | None, rest: str) -> bool:
    dotted = dotted_name(given) if given is not None else None
    return (
        given is not None
        and dotted is not None
        and reaching.is_bound_within(given, f"{dotted}.{rest}")
    )
