"""Lists that a program makes empty and fills: what is taken out of one is what was put into it."""

from __future__ import annotations

import ast

from amp_migrate.model.dataflow.sources import put_into
from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.syntax.queries import nodes_in

_TAKES = ("pop", "popleft")
_MAKES = ("list", "deque")
_READS = ("zip", "enumerate", "len", "reversed", "list", "tuple", "sum")


def given_to_list(
    program: Program, taken: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    """All that is put into the list of `kept[-1]` or `kept.pop()`; nothing where there may be
    more.
    """
    held = _list_of(taken)
    return _given(program, held, scope) if held is not None else []


def given_to(
    program: Program, held: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    """The same of a local list itself, which a loop goes through, where nothing else fills it."""
    if not isinstance(held, ast.Name):
        return []
    module = program.module
    reads = [
        one
        for statement in scope.body
        for one in nodes_in(statement)
        if isinstance(one, ast.Name)
        and one.id == held.id
        and isinstance(one.ctx, ast.Load)
    ]
    if not all(_leaves(program, module.parents[one], one) for one in reads):
        return []
    return _given(program, held, scope)


def _leaves(program: Program, above: ast.AST, name: ast.expr) -> bool:
    """Whether a use of a list fills it by nothing but `append`."""
    if isinstance(above, ast.Attribute):
        return above.attr in ("append", *_TAKES)
    if isinstance(above, ast.Call):
        named = dotted_name(above.func) or ""
        of_torch = (program.canonical(above.func) or "").startswith("torch.")
        return of_torch or named in _READS
    if isinstance(above, (ast.For, ast.comprehension)):
        return above.iter is name
    return isinstance(above, (ast.Subscript, ast.Return))


def _given(
    program: Program, held: ast.expr, scope: Scope
) -> list[tuple[ast.expr, Scope]]:
    dotted = dotted_name(held)
    if dotted is None:
        return []
    bindings = program.reaching.at(held, dotted).bindings
    if not bindings:
        return []
    if not all(
        one.how == "assign" and _is_empty(_bound(one)) for one in bindings
    ):
        return []
    if _is_filled_by_others(program, dotted.rpartition(".")[2]):
        return []
    put = put_into(program, held, scope)
    return [(value, where) for _, value, where in put]


def _list_of(taken: ast.expr) -> ast.expr | None:
    if isinstance(taken, ast.Subscript):
        is_part = isinstance(taken.slice, ast.Slice)
        return None if is_part else taken.value
    func = taken.func if isinstance(taken, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr in _TAKES:
        return func.value
    return None


def _bound(binding: Binding) -> ast.expr | None:
    """`[]` of `outputs, ids = [], []`."""
    value, index = binding.value, binding.index
    if index is None or not isinstance(value, (ast.Tuple, ast.List)):
        return value if index is None else None
    is_plain = not any(isinstance(one, ast.Starred) for one in value.elts)
    return value.elts[index] if is_plain and index < len(value.elts) else None


def _is_empty(value: ast.expr | None) -> bool:
    """`[]`, `list()`, `deque(maxlen=2)`"""
    if isinstance(value, ast.List):
        return not value.elts
    if not isinstance(value, ast.Call) or value.args:
        return False
    name = dotted_name(value.func) or ""
    return name.rpartition(".")[2] in _MAKES


def _is_filled_by_others(program: Program, name: str) -> bool:
    """Whether something is put into an attribute of that name from outside of its class."""
    for scope in program.module.scopes.values():
        for key in scope.stored:
            holder, _, last = key.rpartition(".")
            if last == name and holder not in ("", "self"):
                return True
    return False
