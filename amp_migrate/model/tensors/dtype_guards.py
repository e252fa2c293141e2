"""What a guard says of a tensor behind it: `if x.dtype not in (torch.float32, torch.float64): x =
x.float()` leaves nothing in half precision, and `if mask is not None: mask = mask.to(x.dtype)`
nothing else than None.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import LOOPS, Binding, Scope
from amp_migrate.model.tensors.fact import OTHER, DType, Fact, join
from amp_migrate.model.tensors.use import set_by_others
from amp_migrate.torch_facts.amp_api import FLOATS

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference


def joined(
    inference: Inference,
    expr: ast.Name | ast.Attribute,
    scope: Scope,
    given: tuple[Binding, ...],
) -> Fact:
    """What a name may be of all that it is given."""
    bindings = (*given, *set_by_others(expr, scope))
    turned = _turned(inference.program, expr, bindings)
    facts = [inference.bound(one) for one in bindings]
    if turned is None:
        return join(facts)
    binding, is_none = turned
    own = facts.pop(bindings.index(binding))
    if is_none:
        return join([own, OTHER])
    others = join(facts)
    passed = others.dtypes & ~(DType.HALF | DType.UNKNOWN)
    others = others._replace(dtypes=passed | DType.FLOAT)
    return join([own, others])


def _turned(
    program: Program, expr: ast.expr, bindings: tuple[Binding, ...]
) -> tuple[Binding, bool] | None:
    """The binding by which a guard before `expr` turns its name into another dtype, where it is
    none of those that are wider than half already; or turns what is not None, and that it is so.
    """
    if not isinstance(expr, ast.Name) or len(bindings) < 2:
        return None
    for one in bindings:
        guard = _guard(program, expr, one, bindings)
        if guard is None:
            continue
        if ast.unparse(guard.test) == f"{expr.id} is not None":
            return one, True
        asked = program.reaching.at(guard.test, expr.id).bindings
        if _asks_for_wide(program, guard.test, expr.id, asked):
            return one, False
    return None


def _guard(
    program: Program,
    expr: ast.Name,
    turned: Binding,
    bindings: tuple[Binding, ...],
) -> ast.If | None:
    """The `if` around one binding of a name that all else that reaches the name has passed."""
    module = program.module
    statement = turned.statement
    if turned.how != "assign" or statement not in module.parents:
        return None
    guard = module.parents[statement]
    if not isinstance(guard, ast.If) or guard.orelse:
        return None
    if statement not in guard.body or not _leads(program, guard, expr):
        return None
    asked = program.reaching.at(guard.test, expr.id).bindings
    for one in bindings:
        if one is not turned and one not in asked:
            return None
    return guard


def _leads(program: Program, guard: ast.If, expr: ast.Name) -> bool:
    """Whether a guard stands before a name on every path, with no loop around the name alone."""
    module = program.module
    block = module.block_of(guard)
    inner: ast.AST = expr
    for around in module.ancestors(expr):
        if inner in block:
            break
        if isinstance(around, LOOPS):
            return False
        inner = around
    if inner not in block:
        return False
    return block.index(guard) < block.index(inner)


def _asks_for_wide(
    program: Program, test: ast.expr, name: str, bindings: tuple[Binding, ...]
) -> bool:
    """`name.dtype != torch.float32`, `name.dtype not in (torch.float32, torch.float64)`"""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    if not _is_dtype(program, test.left, name, bindings):
        return False
    operator = test.ops[0]
    known = test.comparators[0]
    if isinstance(operator, (ast.NotEq, ast.IsNot)):
        return program.canonical(known) in FLOATS
    if not isinstance(operator, ast.NotIn):
        return False
    if not isinstance(known, (ast.Tuple, ast.List, ast.Set)):
        return False
    names = map(program.canonical, known.elts)
    return all(one in FLOATS for one in names)


def _is_dtype(
    program: Program, expr: ast.expr, name: str, bindings: tuple[Binding, ...]
) -> bool:
    """Whether an expression is the dtype of what a name holds, or was given it."""
    reaching = program.reaching
    if isinstance(expr, ast.Name):
        given = reaching.at(expr, expr.id).bindings
        if len(given) != 1 or given[0].how != "assign":
            return False
        if given[0].value is None:
            return False
        expr = given[0].value
    if dotted_name(expr) != f"{name}.dtype":
        return False
    held = reaching.at(expr, name).bindings
    return held == bindings
