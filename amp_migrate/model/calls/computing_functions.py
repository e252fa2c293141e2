"""Functions that only compute: whatever they give back, it is no model of their file."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.module import Function, Scope
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.torch_facts import ops

if TYPE_CHECKING:
    from amp_migrate.model.program import Program

_LIBRARIES = ("torch.", "math.", "numpy.")
_FIND_BY_NAME = frozenset(
    "__import__ eval exec getattr globals locals next vars".split()
)


def only_computes(program: Program, function: Function) -> bool:
    """Whether all that a function calls is of torch or Python, or a function of its file that
    computes in turn, and it names nothing else of the file.
    """
    return program.remembered(
        (only_computes, function), lambda: _only_computes(program, function)
    )


def _only_computes(program: Program, function: Function) -> bool:
    """Whether a function, with the helpers of its file, calls nothing but operators."""
    waiting, seen = [function], {function}
    for one in waiting:  # grows while it is read
        scope = program.scope(one)
        for node in nodes_in(one):
            if isinstance(node, ast.Call) and not _computes(program, node):
                return False
            if not isinstance(node, ast.Name):
                continue
            helper = program.graph.function_at(node, scope)
            if helper is not None and helper not in seen:
                seen.add(helper)
                waiting.append(helper)
            elif helper is None and _is_of_file(node, scope):
                return False
    return True


def _computes(program: Program, call: ast.Call) -> bool:
    name = program.canonical(call.func)
    if name is not None:
        return name.startswith(_LIBRARIES)
    func = call.func
    if isinstance(func, ast.Attribute):
        return ops.method(func.attr) is not None
    called = dotted_name(func) or ""
    if called in _FIND_BY_NAME:
        return False
    scope = program.module.scope_of(call)
    is_own = program.graph.function_at(func, scope) is not None
    return is_own or hasattr(builtins, called) and scope.lookup(called) is None


def _is_of_file(name: ast.Name, scope: Scope) -> bool:
    """A class or a variable of the file; a module is asked for where it is called."""
    home = scope.lookup(name.id)
    if home is None or home.parent is not None:
        return False
    bindings = home.bindings.get(name.id, ())
    return any(
        one.how != "import" and not isinstance(one.value, ast.Constant)
        for one in bindings
    )
