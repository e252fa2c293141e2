"""Programs for a torch that has no mixed precision, by their requirements or by their own lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.config import OLDEST_TORCH, Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.syntax.queries import names_in, nodes_in
from amp_migrate.model.values.scalars import is_scalar
from amp_migrate.planner.refusal import Refusal


def refuse_old_torch(settings: Settings, node: ast.AST) -> None:
    """Mixed precision came with torch 1.6."""
    oldest = settings.target_torch
    if oldest is not None and oldest < OLDEST_TORCH:
        version = ".".join(map(str, oldest))
        raise Refusal(
            "torch-too-old",
            node,
            f"the project admits torch {version} by its requirements, and mixed precision "
            "came with 1.6: raise that bound, or name the torch that runs it with --target-torch",
        )


def refuse_old_loop(program: Program, scope: Scope) -> None:
    """A loop that indexes a loss ran up to torch 0.4: later, the loss has no dimensions, and
    indexing it raises IndexError. One that uses a builtin of Python 2 runs there alone.
    """
    _refuse_python_2(program, scope)
    for read, where in _read_here(program, scope):
        assert isinstance(read.value, ast.Attribute)
        if is_scalar(program, read.value.value, where):
            raise Refusal(
                "removed-api",
                read,
                f"`{ast.unparse(read)}` raises IndexError since torch 0.5, where a loss has no "
                "dimensions (mixed precision came with 1.6)",
            )


def _refuse_python_2(program: Program, scope: Scope) -> None:
    if scope.module.imports.stars:
        return
    for node in nodes_in(scope.node):
        if _is_of_python_2(program, node, scope):
            said = ast.unparse(node)
            raise Refusal(
                "removed-api",
                node,
                f"`{said}` was a builtin of Python 2, which no torch with mixed precision runs "
                "on: in Python 3 it raises NameError",
            )


_BUILTINS = frozenset(
    ("basestring", "raw_input", "unichr", "unicode", "xrange")
)
_CHOICES = (ast.If, ast.IfExp, ast.Try)


def _is_of_python_2(program: Program, node: ast.AST, scope: Scope) -> bool:
    if not isinstance(node, ast.Name) or node.id not in _BUILTINS:
        return False
    if program.module.scope_of(node) is not scope or scope.lookup(node.id):
        return False
    above = program.module.ancestors(node)
    return not any(
        isinstance(one, _CHOICES) and not _is_main(one) for one in above
    )


def _is_main(statement: ast.AST) -> bool:
    """`if __name__ == "__main__":`"""
    return isinstance(statement, ast.If) and "__name__" in names_in(
        statement.test
    )


def _read_here(
    program: Program, scope: Scope
) -> Iterator[tuple[ast.Subscript, Scope]]:
    """In a body and in the functions of its file that it calls."""
    called = {
        program.scope(one)
        for call in scope.calls
        for one in program.values.callees(call, scope)
    }
    near = {one for one in called if one.module is scope.module} - {scope}
    for where in (scope, *sorted(near, key=_line)):
        yield from ((one, where) for one in _indexed_data(where))


def _line(scope: Scope) -> int:
    return getattr(scope.node, "lineno", 0)


def _indexed_data(scope: Scope) -> Iterator[ast.Subscript]:
    """`loss.data[0]`."""
    for node in nodes_in(scope.node):
        if not isinstance(node, ast.Subscript) or not isinstance(
            node.value, ast.Attribute
        ):
            continue
        index = node.slice
        if (
            node.value.attr == "data"
            and isinstance(index, ast.Constant)
            and index.value == 0
        ):
            yield node
