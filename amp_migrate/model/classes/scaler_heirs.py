"""Classes of the project that derive from GradScaler and keep its protocol: what they have of their
own for one of its methods runs the base's.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import FUNCTIONS, Function
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.values.kinds import Kind, library_kind
from amp_migrate.torch_facts.amp_api import SCALER_METHODS

if TYPE_CHECKING:
    from amp_migrate.model.calls.call_graph import CallGraph


def is_scaler_heir(
    graph: CallGraph, cls: ast.ClassDef, bases: list[str]
) -> bool:
    """Whether objects of a class, whose lineage has these bases out of sight, do what a
    GradScaler does.
    """
    if not any(library_kind(base) is Kind.SCALER for base in bases):
        return False
    return all(
        _keeps(method)
        for one in graph.lineage(cls)
        for method in one.body
        if isinstance(method, FUNCTIONS) and method.name in SCALER_METHODS
    )


def _keeps(method: Function) -> bool:
    """Whether a method calls the same one of its base, and no other of the protocol."""
    called = {
        node.func.attr
        for node in nodes_in(method)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and _is_own(node.func.value, method)
    }
    return called & set(SCALER_METHODS) == {method.name}


def _is_own(receiver: ast.expr, method: Function) -> bool:
    """`super()`, or `self`"""
    if isinstance(receiver, ast.Call):
        func = receiver.func
        return isinstance(func, ast.Name) and func.id == "super"
    own = method.args.args[:1]
    return isinstance(receiver, ast.Name) and receiver.id in {
        one.arg for one in own
    }
