"""Calls of methods whose form tells that they are a tensor's: arrays take other arguments."""

from __future__ import annotations

import ast

from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.values.literals import number
from amp_migrate.torch_facts import ops
from amp_migrate.torch_facts.ops.roles import CONVERSIONS


def only_tensors_take(call: ast.Call, op: ops.Op) -> bool:
    """`x.mean(-1, keepdim=True)`: arrays have `axis` and `keepdims`. `(x > 0).float()`: only a
    module has it, too, and no operation gives one.
    """
    assert isinstance(call.func, ast.Attribute)
    names = {one.arg for one in call.keywords}
    if names & {"dim", "keepdim"}:
        return op.result != "either"
    is_computed = isinstance(call.func.value, (ast.BinOp, ast.Compare))
    return is_computed and op.result in CONVERSIONS


def swaps(call: ast.Call, scope: Scope) -> bool:
    """`x.transpose(1, 2)`: an array wants all its axes there, and none of two has these."""
    func = call.func
    places = [number(one, scope) for one in call.args]
    if not isinstance(func, ast.Attribute) or func.attr != "transpose":
        return False
    of_two = {one % 2 for one in places if one in (-2, -1, 0, 1)}
    return len(places) == 2 and None not in places and len(of_two) < 2
