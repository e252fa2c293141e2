"""What a method is called on, where that can be no object of the project."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.object_calls import holder_of
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import Kind, library_kind

if TYPE_CHECKING:
    from amp_migrate.model.calls.call_graph import CallGraph

_TOOLS = {Kind.SCALER, Kind.OPTIMIZER, Kind.SCHEDULER}


def is_of_torch(graph: CallGraph, holder: ast.expr, caller: Scope) -> bool:
    """Whether all that a variable is given are scalers, optimizers and schedulers of torch, whose
    methods are their own.
    """
    held = holder_of(graph, holder, caller)
    bindings = held[0].bindings.get(held[1], []) if held is not None else []
    names = [
        graph.module.canonical(b.value.func)
        for b in bindings
        if b.how == "assign"
        and b.index is None
        and isinstance(b.value, ast.Call)
    ]
    return (
        bool(names)
        and len(names) == len(bindings)
        and all(
            name is not None and library_kind(name) in _TOOLS for name in names
        )
    )


def is_module(holder: ast.expr, scope: Scope) -> bool:
    """`librosa` of `librosa.load(path)`: what `import` binds has functions, and no methods."""
    name = holder.id if isinstance(holder, ast.Name) else ""
    home = scope.lookup(name)
    held = home.bindings.get(name, ()) if home is not None else ()
    return bool(held) and all(isinstance(b.statement, ast.Import) for b in held)
