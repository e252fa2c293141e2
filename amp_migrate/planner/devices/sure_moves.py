"""Moves to CUDA that a branch makes on every way out of it: its condition chooses between GPUs, not
whether there is one.
"""

from __future__ import annotations

import ast

from amp_migrate.model.dataflow.run_ends import ends_run
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Module
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.torch_facts.methods import MOVES

_ADDS = ("append", "insert")
"""Methods of lists that add one thing."""


def is_sure(program: Program, branch: ast.If, move: ast.AST) -> bool:
    """Whether each arm of a branch moves to CUDA what `move` does, or ends the run, or leaves it
    without a value: what reads it then has come through an arm that moves it.
    """
    module = program.module
    names = _moved(module.statement_of(move)) if _is_call(move) else set()
    if not names:
        return False
    new = all(_is_new(program, branch, name, names) for name in names)
    return _is_moved(module, branch, names, new)


def is_demanded(module: Module, asked: ast.AST) -> bool:
    """`assert torch.cuda.is_available()`, `if not torch.cuda.is_available(): sys.exit(1)`"""
    above = module.parents[asked]
    if isinstance(above, ast.Assert):
        return above.test is asked
    branch = module.parents[above]
    negated = isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)
    return (
        negated
        and isinstance(branch, ast.If)
        and branch.test is above
        and _ends(module, branch.body)
    )


def arms(choice: ast.If | ast.IfExp) -> tuple[list[ast.AST], list[ast.AST]]:
    """What is done, or evaluated, where a condition holds, and where it does not."""
    if isinstance(choice, ast.If):
        return list(choice.body), list(choice.orelse)
    return [choice.body], [choice.orelse]


def leaves_cpu(arm: ast.AST) -> bool:
    """Whether something is moved there, and not to the CPU."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in MOVES
        and not any(
            isinstance(one, ast.Constant) and one.value == "cpu"
            for given in node.args[:1]
            for one in nodes_in(given)
        )
        for node in nodes_in(arm)
    )


def _is_new(
    program: Program, branch: ast.If, name: str, names: set[str]
) -> bool:
    """Whether a name has no value before a branch, but one that its arms move."""
    reach = program.reaching.own(branch, name)
    if reach is None or "." in name or not reach.complete:
        return False
    ancestors = program.module.ancestors
    return all(
        isinstance(one.statement, ast.stmt)
        and branch in ancestors(one.statement)
        and _moved(one.statement) & names
        for one in reach.bindings
    )


def _is_moved(
    module: Module, branch: ast.If, names: set[str], new: bool
) -> bool:
    return all(
        _ends(module, arm)
        or _moves(module, arm, names, new)
        or new
        and not _binds(arm, names)
        for arm in (branch.body, branch.orelse)
    )


def _binds(arm: list[ast.stmt], names: set[str]) -> bool:
    """Whether an arm gives one of the names a value."""
    return any(
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and node.id in names
        for statement in arm
        for node in nodes_in(statement)
    )


def _moves(
    module: Module, arm: list[ast.stmt], names: set[str], new: bool
) -> bool:
    """Whether an arm of a branch moves one of the names."""
    return any(
        _is_moved(module, one, names, new)
        if isinstance(one, ast.If)
        else bool(_moved(one) & names)
        for one in arm
    )


def _ends(module: Module, arm: list[ast.stmt]) -> bool:
    last = arm[-1] if arm else None
    if isinstance(last, ast.Expr):
        return ends_run(module, last.value)
    return isinstance(last, ast.Raise)


def _moved(statement: ast.stmt) -> set[str]:
    """What a statement moves: `model.cuda()`, `model = DataParallel(model).to("cuda")`; the list
    of `models.append(Net().cuda())`.
    """
    if not isinstance(statement, (ast.Expr, ast.Assign)):
        return set()
    call = statement.value
    if not isinstance(call, ast.Call):
        return set()
    if not _is_to_cuda(call):
        return _kept_in(call)
    assert isinstance(call.func, ast.Attribute)
    kept = statement.targets if isinstance(statement, ast.Assign) else []
    named = (dotted_name(one) for one in (call.func.value, *kept))
    return {one for one in named if one is not None}


def _kept_in(call: ast.Call) -> set[str]:
    func, added = call.func, call.args[-1] if call.args else None
    if not isinstance(func, ast.Attribute) or func.attr not in _ADDS:
        return set()
    moved = isinstance(added, ast.Call) and _is_to_cuda(added)
    holder = dotted_name(func.value) if moved else None
    return {holder} if holder is not None else set()


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call)


def _is_to_cuda(call: ast.Call) -> bool:
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    device = call.args[0] if len(call.args) == 1 else None
    text = device.value if isinstance(device, ast.Constant) else None
    named = isinstance(text, str) and text.partition(":")[0] == "cuda"
    return method == "cuda" or method == "to" and named
