"""Functions that save whatever keywords they are given: `save(path, **state)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS, Function
from amp_migrate.model.syntax.queries import nodes_in

_SAVE = "torch.save"


def saves_keywords(program: Program, call: ast.Call) -> bool:
    """Whether a call gives a keyword to a function in sight that does nothing with its keywords
    but to save them in one dict.
    """
    home, function = _function(program, call)
    rest = function.args.kwarg if function is not None else None
    if home is None or function is None or rest is None:
        return False
    reads = list(_reads(function, rest.arg))
    return bool(reads) and all(_is_saved(home, function, one) for one in reads)


def _function(
    program: Program, call: ast.Call
) -> tuple[Program | None, Function | None]:
    scope = program.module.scope_of(call)
    own = program.values.callee(call, scope)
    if own is not None:
        return program, own
    abroad = program.values.abroad(call.func, scope)
    if abroad is None or not isinstance(abroad[1], FUNCTIONS):
        return None, None
    return abroad[0], abroad[1]


def _reads(function: Function, name: str) -> Iterator[ast.Name]:
    for node in nodes_in(function):
        if isinstance(node, ast.Name) and node.id == name:
            yield node


def _is_saved(home: Program, function: Function, state: ast.expr) -> bool:
    """`torch.save(state, path)`, `whole.update(state)`, `{"epoch": epoch, **state}`"""
    parents = home.module.parents
    above = parents[state]
    if isinstance(above, ast.keyword):  # `dict(epoch=epoch, **state)`
        call = parents[above]
        is_dict = isinstance(call, ast.Call) and _is_name(call.func, "dict")
        return is_dict and _is_kept(home, function, parents[above])
    if isinstance(above, ast.Dict):
        is_rest = above.keys[above.values.index(state)] is None
        return is_rest and _is_kept(home, function, above)
    if not isinstance(above, ast.Call) or state not in above.args:
        return False
    if home.canonical(above.func) == _SAVE:
        return above.args[0] is state
    whole = above.func.value if isinstance(above.func, ast.Attribute) else None
    updates = isinstance(above.func, ast.Attribute) and (
        above.func.attr == "update"
    )
    return updates and whole is not None and _is_whole(home, function, whole)


def _is_kept(home: Program, function: Function, made: ast.AST) -> bool:
    """`torch.save({...}, path)`, `state = {...}`"""
    above = home.module.parents[made]
    if isinstance(above, ast.Call):
        is_first = above.args[:1] == [made]
        return is_first and home.canonical(above.func) == _SAVE
    target = above.targets[0] if isinstance(above, ast.Assign) else None
    return target is not None and _is_whole(home, function, target)


def _is_whole(home: Program, function: Function, whole: ast.expr) -> bool:
    """A name of the function that is a dict in it, filled and saved and nothing else."""
    if not isinstance(whole, ast.Name):
        return False
    bindings = home.scope(function).bindings.get(whole.id, ())
    made = [one.value for one in bindings if one.how == "assign"]
    if len(made) != len(bindings) or not all(
        isinstance(one, ast.Dict)
        or isinstance(one, ast.Call)
        and _is_name(one.func, "dict")
        for one in made
    ):
        return False
    reads = [
        one
        for one in _reads(function, whole.id)
        if isinstance(one.ctx, ast.Load)
    ]
    return all(_fills_or_saves(home, one) for one in reads) and any(
        isinstance(home.module.parents[one], ast.Call) for one in reads
    )


def _fills_or_saves(home: Program, whole: ast.Name) -> bool:
    above = home.module.parents[whole]
    if isinstance(above, ast.Call):
        is_first = above.args[:1] == [whole]
        return is_first and home.canonical(above.func) == _SAVE
    if isinstance(above, ast.Subscript):
        return isinstance(above.ctx, ast.Store)
    return isinstance(above, ast.Attribute) and above.attr == "update"


def _is_name(func: ast.expr, name: str) -> bool:
    return isinstance(func, ast.Name) and func.id == name
