"""Where a name that holds an optimizer has its home."""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.planner.refusal import Refusal, what_was_read
from amp_migrate.planner.scaler_placement.makers import kept_by_class


def place_of_root(
    program: Program, name: str, scope: Scope, node: ast.expr
) -> str:
    """The scope that a name belongs to, or `self.` and a class for an attribute. Raises Refusal
    where nothing defines it.
    """
    head, _, rest = name.partition(".")
    here: Scope | None = scope
    while here is not None:
        if here.self_name == head and rest:
            return "self." + here.qualname.rpartition(".")[0]
        here = here.parent
    home = scope.lookup(head)
    if home is not None and home.class_name == head:
        raise kept_by_class(name, node)
    if home is None:
        raise Refusal(
            "optimizer-not-in-sight",
            node,
            f"nothing in {what_was_read(program)} defines `{head}`: name the files that "
            "it comes from too",
        )
    return home.qualname
