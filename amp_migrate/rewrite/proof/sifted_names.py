"""What goes through all attributes of an object, and takes none but modules, tensors or
optimizers: a new scaler among them makes no difference.
"""

from __future__ import annotations

import ast

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.torch_facts.iteration import MAPPING_VIEWS

_NO_SCALERS = ("torch.nn.", "torch.optim.", "torch.Tensor")
"""How the names of classes begin of which no scaler, switch or dtype is."""


def is_sifted(program: Program, names: ast.expr, scope: Scope) -> bool:
    """`for one in self.__dict__.values(): if isinstance(one, nn.Module): ...`"""
    parents = program.module.parents
    view = parents.get(names)
    call = parents.get(view) if view is not None else None
    if not (
        isinstance(view, ast.Attribute)
        and view.attr in MAPPING_VIEWS
        and isinstance(call, ast.Call)
    ):
        return False
    around = parents.get(call)
    if isinstance(around, ast.For) and around.iter is call:
        only = around.body[0]
        is_plain = len(around.body) == 1 and not around.orelse
        if not (is_plain and isinstance(only, ast.If) and not only.orelse):
            return False
        return _asks_class(program, only.test, around.target, scope)
    return (
        isinstance(around, ast.comprehension)
        and around.iter is call
        and any(
            _asks_class(program, test, around.target, scope)
            for test in around.ifs[:1]
        )
    )


def _asks_class(
    program: Program, test: ast.expr, target: ast.expr, scope: Scope
) -> bool:
    """`isinstance(one, nn.Module)`, alone or before anything else is asked."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        test = test.values[0]
    value = target.elts[-1] if isinstance(target, ast.Tuple) else target
    if not (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id == "isinstance"
        and scope.lookup("isinstance") is None
        and len(test.args) == 2
    ):
        return False
    asked, cls = test.args
    classes = cls.elts if isinstance(cls, ast.Tuple) else [cls]
    is_same = isinstance(value, ast.Name) and ast.unparse(asked) == value.id
    return is_same and all(
        (program.canonical(one) or "").startswith(_NO_SCALERS)
        for one in classes
    )
