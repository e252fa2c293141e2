"""Models that one region runs both without and with gradients.

Autocast keeps the half copies of weights until the region ends. Before torch 2.10 a copy that was
made under `no_grad` served later forwards as well, whose weights then got no gradient, silently
(pytorch issues 65766 and 112583). Such a region keeps no copies.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from amp_migrate.config import Settings
from amp_migrate.model.events import EventKind
from amp_migrate.model.gradient_flow import under_no_grad
from amp_migrate.model.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax import Scope
from amp_migrate.planner.half_safety.reach import reachable
from amp_migrate.planner.refusal import Refusal
from amp_migrate.torch_facts.amp_api import CACHE_KEEPS_GRADIENTS, CACHE_SWITCH


def loses_gradients(
    program: Program,
    settings: Settings,
    statements: Sequence[ast.stmt],
    scope: Scope,
) -> bool:
    """Whether a region may reuse weights that it cast under `no_grad`, on the oldest torch that
    the program may run on.
    """
    oldest = settings.target_torch
    if oldest is not None and oldest >= CACHE_KEEPS_GRADIENTS:
        return False
    quiet, loud = set[str](), set[str]()
    for node, where in reachable(program, list(statements), scope):
        if (
            isinstance(node, ast.Call)
            and program.effects.of_node(node, where) & EventKind.FORWARD
        ):
            name = dotted_name(node.func)
            if name is not None:
                (quiet if under_no_grad(program, node) else loud).add(name)
    return bool(quiet & loud)


def refuse_cached(
    program: Program,
    settings: Settings,
    statements: Sequence[ast.stmt],
    scope: Scope,
) -> None:
    """Raise Refusal where such a region cannot be told to keep no copies."""
    oldest = settings.target_torch
    if oldest is None or oldest >= CACHE_SWITCH:
        return
    if loses_gradients(program, settings, statements, scope):
        raise Refusal(
            "torch-too-old",
            statements[0],
            "a model runs here both under no_grad and with gradients, for which autocast must keep "
            "no casts of weights, and takes cache_enabled since torch 1.10: raise the bound of "
            "torch, or pass --target-torch 1.10",
        )
