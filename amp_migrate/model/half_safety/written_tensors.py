"""Tensors that a call writes in place: `x` of `x.clamp_(0, 1)`, `F.relu(x, inplace=True)`, `out=x`.

A `.float()` on such a tensor gives a copy wherever it is half, and what is written there is lost
but for the value that the call gives.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.half_safety.half_buffers import (
    is_made_anew,
    is_read_after,
    makers,
)
from amp_migrate.model.half_safety.hazard import Asked
from amp_migrate.model.syntax.module import Binding
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.tensors.parameters import arguments
from amp_migrate.torch_facts import ops

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_HOPS = 3


def writer_of(program: Program, tensor: ast.expr) -> ast.Call | None:
    """The call that writes into what an expression is."""
    parents = program.module.parents
    above = parents.get(tensor)
    call = parents.get(above) if above is not None else None
    if isinstance(above, ast.keyword):
        is_out = above.arg == "out" and isinstance(call, ast.Call)
        return call if is_out and isinstance(call, ast.Call) else None
    if isinstance(above, ast.Attribute):
        is_method = isinstance(call, ast.Call) and call.func is above
        is_written = is_method and ops.writes_in_place(above.attr)
        return call if is_written and isinstance(call, ast.Call) else None
    if not isinstance(above, ast.Call) or tensor not in above.args[:1]:
        return None
    return above if _writes_first(program, above) else None


def _writes_first(program: Program, call: ast.Call) -> bool:
    """`torch.relu_(x)`, `F.relu(x, inplace=True)`"""
    name = (program.canonical(call.func) or "").rpartition(".")[2]
    return ops.writes_in_place(name) or any(
        one.arg == "inplace"
        and not (isinstance(one.value, ast.Constant) and not one.value.value)
        for one in call.keywords
    )


def homes(asked: Asked, tensor: ast.expr) -> list[ast.expr]:
    """The expressions to cast instead of a tensor that is written: those that make it, or itself
    where the value of the call alone goes on; none where something else may hold it.
    """
    program = asked.inference.program
    root = root_of(program, tensor)
    if is_made_anew(asked, root):
        return [root]
    return makers(asked, root) or [tensor] * _goes_on(program, tensor, root)


def _goes_on(program: Program, tensor: ast.expr, root: ast.expr) -> bool:
    """Whether the value of the call is all that goes on: `y = x.sigmoid_()`, and nothing reads `x`
    from there on; `x[0] = x[0].sigmoid_()`.
    """
    module = program.module
    statement = module.statement_of(tensor)
    if isinstance(statement, ast.Expr):
        return False
    if isinstance(statement, ast.Assign):
        written = {ast.unparse(root), ast.unparse(tensor)}
        if not written.isdisjoint(map(ast.unparse, statement.targets)):
            return True
    if not isinstance(root, ast.Name):
        return False
    return not is_read_after(module, root, statement) and not _is_held(
        program, root, _HOPS
    )


def _is_held(program: Program, name: ast.Name, hops: int) -> bool:
    """Whether something else may hold what a name does: an attribute, a list, another name, or the
    one who calls, and reads what was handed over.
    """
    for binding in program.reaching.at(name, name.id).bindings:
        if binding.how != "parameter":
            if _is_kept_by_list(program, binding, hops):
                return True
            continue
        if not hops:
            return True
        given = arguments(program, binding)  # none where other files call
        if any(_is_kept(program, one, hops) for one, _ in given):
            return True
    return False


def _is_kept_by_list(program: Program, binding: Binding, hops: int) -> bool:
    """Whether a name was not made for itself: an element of a list is held as the list is."""
    value = _value(binding)
    if binding.how != "for" or not isinstance(value, ast.Name):
        return not isinstance(value, (ast.Call, ast.BinOp))
    at = program.module.statement_of(value)
    is_last = isinstance(at, ast.Return)
    if not is_last and is_read_after(program.module, value, at):
        return True
    return _is_held(program, value, hops)


def _is_kept(program: Program, given: ast.expr, hops: int) -> bool:
    """Whether the one who calls goes on to use what it hands over."""
    if isinstance(given, (ast.Call, ast.BinOp)):
        return False
    statement = program.module.statement_of(given)
    if isinstance(statement, ast.Assign):  # x["out"] = f(x["out"])
        if ast.unparse(given) in map(ast.unparse, statement.targets):
            return False
    if not isinstance(given, ast.Name):
        return True
    if is_read_after(program.module, given, statement):
        return True
    names = (one for one in nodes_in(statement) if isinstance(one, ast.Name))
    reads = [one for one in names if one.id == given.id]
    if any(one is not given and isinstance(one.ctx, ast.Load) for one in reads):
        return True
    return _is_held(program, given, hops - 1)


def _value(binding: Binding) -> ast.expr | None:
    """What a name gets: of `mean, spread = f(x), g(x)` its part."""
    value, place = binding.value, binding.index
    if not isinstance(value, ast.Tuple) or place is None:
        return value
    return value.elts[place] if place < len(value.elts) else None


def root_of(program: Program, tensor: ast.expr) -> ast.expr:
    """`x` of `x[0].abs_()`: the tensor whose memory an expression is."""
    inner = written_first(program, tensor)
    return tensor if inner is None else root_of(program, inner)


def written_first(program: Program, tensor: ast.expr) -> ast.expr | None:
    """`x` of `x.abs_()`, which is `x` itself, and of `x[0]`, which is a part of it."""
    if isinstance(tensor, ast.Subscript):
        return tensor.value
    if not isinstance(tensor, ast.Call):
        return None
    given = [*tensor.args[:1]]
    if isinstance(tensor.func, ast.Attribute):
        given.insert(0, tensor.func.value)
    written = [one for one in given if writer_of(program, one) is tensor]
    return written[0] if written else None
