"""Uses of an attribute that hand no function on: what is iterated, indexed or counted is none, and
a test of its truth keeps it.
"""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import Module

_OF_COLLECTIONS = frozenset(
    "len sorted list tuple set frozenset sum enumerate zip reversed range int float abs".split()
)


def stays(module: Module, node: ast.expr) -> bool:
    """Whether `args.train` or `dataset.train`, as it is used, cannot pass a function on."""
    parent = module.parents[node]
    if isinstance(parent, ast.Attribute):  # `worker.train.remote(x)` calls it
        above = module.parents[parent]
        is_called = isinstance(above, ast.Call) and above.func is parent
        return not is_called and not parent.attr.startswith("__")
    if isinstance(parent, ast.Subscript):
        return parent.value is node
    if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
        return parent.iter is node
    if isinstance(parent, (ast.BinOp, ast.AugAssign, ast.FormattedValue)):
        return True
    if isinstance(parent, ast.Call):
        func = parent.func
        name = func.id if isinstance(func, ast.Name) else ""
        return node in parent.args and name in _OF_COLLECTIONS
    return _is_asked(module, node)


def _is_asked(module: Module, node: ast.expr) -> bool:
    """`if args.train and not args.test:`"""
    inner, outer = node, module.parents[node]
    while isinstance(outer, (ast.BoolOp, ast.UnaryOp)):
        if isinstance(outer, ast.UnaryOp):
            return True
        inner, outer = outer, module.parents[outer]
    is_test = isinstance(outer, (ast.If, ast.While, ast.Assert, ast.IfExp))
    return is_test and getattr(outer, "test", None) is inner
