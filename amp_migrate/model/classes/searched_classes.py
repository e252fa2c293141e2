"""Optimizers of classes that are found by a name which only the run knows: `eval(kind)(params)`,
`globals()[kind](params)`, `eval(f"torch.optim.{kind}")(params)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.classes.looked_up import module_searched
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.kinds import UNKNOWN, Kind, Value, library_kind

if TYPE_CHECKING:
    from amp_migrate.model.calls.call_graph import CallGraph
    from amp_migrate.model.values.value_kinds import Values

_OPTIMIZERS = "torch.optim"
_USED = {"step", "zero_grad"}
_OWN_NAMES = ("globals", "locals", "vars")


def searched_optimizer(values: Values, call: ast.Call, scope: Scope) -> Value:
    """What a call makes, where its class is searched among names that tell: those of torch.optim,
    or those of the file, of what is used as an optimizer.
    """
    text = _text_run(call.func)
    if text is not None and _begins_in_torch(text, scope):
        return Value(Kind.OPTIMIZER, call, _OPTIMIZERS)
    if text is None and not _is_of_own_names(call.func):
        return UNKNOWN
    if not _is_used_as_optimizer(values, call, scope):
        return UNKNOWN
    found = list(_named(values, scope))
    other = next((v for v in found if v.kind is not Kind.OPTIMIZER), None)
    if other is not None:
        kind = (
            other.kind if other.kind is Kind.FOREIGN_OPTIMIZER else Kind.WRAPPER
        )
        return other._replace(kind=kind, origin=call, mixed=len(found) > 1)
    return Value(Kind.OPTIMIZER, call, _OPTIMIZERS) if found else UNKNOWN


def _text_run(maker: ast.expr) -> ast.expr | None:
    """The text of `eval(text)`."""
    is_eval = isinstance(maker, ast.Call) and dotted_name(maker.func) == "eval"
    if not is_eval or not isinstance(maker, ast.Call) or not maker.args:
        return None
    return maker.args[0]


def _begins_in_torch(text: ast.expr, scope: Scope) -> bool:
    """`f"torch.optim.{kind}"`, `"optim." + kind`, `"optim.%s" % kind`"""
    first = text
    while isinstance(first, (ast.BinOp, ast.JoinedStr)):
        if isinstance(first, ast.BinOp):
            first = first.left
        elif first.values:
            first = first.values[0]
        else:
            return False
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return False
    named, dot, _ = first.value.partition("%")[0].rpartition(".")
    head, _, rest = named.partition(".")
    origin = scope.module.imports.names.get(head, "")
    return bool(dot) and f"{origin}.{rest}".strip(".") == _OPTIMIZERS


def _is_of_own_names(maker: ast.expr) -> bool:
    """`globals()[kind]`"""
    if not isinstance(maker, ast.Subscript):
        return False
    held = maker.value
    return (
        isinstance(held, ast.Call)
        and not held.args
        and dotted_name(held.func) in _OWN_NAMES
        and module_searched(held) is None
    )


def _is_used_as_optimizer(values: Values, call: ast.Call, scope: Scope) -> bool:
    """Whether what holds the object is stepped, and has its gradients cleared: no model and no
    scheduler is used so.
    """
    statement = values.module.parents.get(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    held = dotted_name(statement.targets[0])
    return held is not None and values.methods_used(held, scope) >= _USED


def _named(values: Values, scope: Scope) -> Iterator[Value]:
    """What may be an optimizer, of the classes that a file has names for."""
    file = scope.module
    for origin in file.imports.names.values():
        kind = library_kind(origin)
        if kind in (Kind.OPTIMIZER, Kind.FOREIGN_OPTIMIZER):
            yield Value(kind, None, origin)
    for node in values.graph.classes():
        at_top = values.module.scopes[node].parent is file.root
        if at_top and _steps(values.graph, node):
            yield values.instance(node, None)
    near = file.neighbours
    for star in file.imports.stars if near is not None else ():
        for home, found in near.exported(star) if near is not None else ():
            if isinstance(found, ast.ClassDef) and _steps(home.graph, found):
                kind = home.values.class_kind(found)
                yield Value(kind, None, found.name, foreign=(home, found))


def _steps(graph: CallGraph, cls: ast.ClassDef) -> bool:
    """Whether its objects can be used as an optimizer; its bases in sight count."""
    return all(graph.method(cls, name) is not None for name in _USED)
