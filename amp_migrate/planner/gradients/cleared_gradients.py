"""Gradients that no optimizer steps on: a loop only reads them, or their model leaves the function
nowhere.
"""

from __future__ import annotations

import ast
import builtins

from amp_migrate.model.program import Program
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import LOOPS, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.planner.groups import Group
from amp_migrate.planner.steps.step_calls import elsewhere
from amp_migrate.torch_facts import ops

_KEEP = frozenset({"cuda", "cpu", "eval", "to", "train", "zero_grad"})
"""Methods of a model that hand nothing of it on."""


def never_stepped(program: Program, group: Group) -> bool:
    """Whether no step elsewhere can use the gradients of a loop: it reads them and clears them in
    each turn, or they are those of a model that leaves the function nowhere.
    """
    if _is_local(program, group.scope):
        return True
    training = group.training(program)  # a lambda has none
    return bool(training) and all(
        isinstance(one, LOOPS) and _is_read_only(program, group, one)
        for one in training
    )


def _is_read_only(program: Program, group: Group, loop: ast.stmt) -> bool:
    """Whether a loop clears, goes backward, and reads what that gave, in one block, and calls
    nothing behind the backward that may step.
    """
    module = program.module
    for backward in group.backwards:
        here = module.statement_of(backward)
        block = module.block_of(here)
        at = next(i for i, one in enumerate(block) if one is here)
        behind = [n for one in block[at + 1 :] for n in nodes_in(one)]
        calls = [n for n in behind if isinstance(n, ast.Call)]
        if not (
            module.statement_around(here) is loop
            and any(map(_clears_any, block[:at]))
            and any(map(program.effects.reads_gradients, behind))
            and all(_is_harmless(program, one, group.scope) for one in calls)
        ):
            return False
    return True


def _is_harmless(program: Program, call: ast.Call, scope: Scope) -> bool:
    """Whether a call steps no optimizer: one of a library, or a method of a tensor, of a model, or
    of what the function made.
    """
    func = call.func
    function = program.values.callee(call, scope)
    if function is not None:
        return not program.effects.of_function(function) & EventKind.STEP
    if program.canonical(func) is not None:
        return True
    if not isinstance(func, ast.Attribute):
        return isinstance(func, ast.Name) and func.id in dir(builtins)
    if elsewhere(program, call, scope) is not None:
        return False
    is_method = ops.method(func.attr) is not None
    if is_method or program.values.is_model(func.value, scope):
        return True
    root: ast.expr = func
    while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
        root = root.func if isinstance(root, ast.Call) else root.value
    made = scope.bindings.get(getattr(root, "id", ""), [])
    return bool(made) and all(one.how != "parameter" for one in made)


def _clears_any(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "zero_grad"


def _is_local(program: Program, scope: Scope) -> bool:
    """Whether all that runs forward was made in this function, which only calls it."""
    models = {
        c.func.id if isinstance(c.func, ast.Name) else ""
        for c in scope.calls
        if program.effects.is_forward(c, scope)
    }
    own = all(_is_only_called(program, name, scope) for name in models)
    return scope.is_function and bool(models) and own


def _is_only_called(program: Program, name: str, scope: Scope) -> bool:
    made = scope.bindings.get(name, [])
    if name in scope.outer or not made:
        return False
    loads = (
        node
        for statement in scope.body
        for node in nodes_in(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )
    return all(isinstance(one.value, ast.Call) for one in made) and all(
        _is_kept(program, node) for node in loads if node.id == name
    )


def _is_kept(program: Program, model: ast.Name) -> bool:
    """`model(x)`, and the statement `model.eval()`."""
    parents = program.module.parents
    parent = parents[model]
    if isinstance(parent, ast.Attribute) and parent.attr in _KEEP:
        return isinstance(parents[parents[parent]], ast.Expr)
    return isinstance(parent, ast.Call) and parent.func is model
