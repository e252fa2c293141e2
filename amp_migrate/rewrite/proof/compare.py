"""Compare two programs node by node, without positions, and say where they first differ."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from amp_migrate.model.naming.names import dotted_name

EXCERPT = 90
SKIPPED = frozenset({"type_ignores", "type_comment"})
_Pair: TypeAlias = tuple[object, object, ast.AST, ast.AST]
"""Parts of both programs, and the statements that they stand in."""


@dataclass(frozen=True)
class Difference:
    """The first place where the programs differ: lines (1-based) and the statement on each side,
    shortened.
    """

    original_line: int
    output_line: int
    original: str
    output: str

    def __str__(self) -> str:
        return (
            f"line {self.output_line} of the output is not line {self.original_line} of the "
            "original:"
            f" `{self.output}` instead of `{self.original}`"
        )


@dataclass(frozen=True)
class Comparison:
    """Whether they are the same program, and how many casts only the output has."""

    difference: Difference | None
    float_casts: int


def compare(original: ast.AST, output: ast.AST) -> Comparison:
    """Walk both trees in step; a `.float()`, or `.to(x.dtype)`, that only the output has is counted
    and looked through.
    """
    apart, casts = _walked(original, output)
    return Comparison(_difference(*apart) if apart else None, casts)


def _walked(
    original: ast.AST, output: ast.AST
) -> tuple[tuple[ast.AST, ast.AST] | None, int]:
    """The statements that differ first, and how many casts the output has more."""
    casts = 0
    pending: list[_Pair] = [(original, output, original, output)]
    while pending:
        pair = left, right, left_near, right_near = pending.pop()
        if (
            isinstance(right, ast.Call)
            and isinstance(right.func, ast.Attribute)
            and _is_added(left, right)
        ):
            casts += 1
            pending.append((left, right.func.value, left_near, right_near))
        elif type(left) is not type(right):
            near = _nearest(left, left_near), _nearest(right, right_near)
            return near, casts
        elif isinstance(left, (ast.AST, list)):
            pending += _inner(pair)
        elif left != right or repr(left) != repr(right):
            return (left_near, right_near), casts
    return None, casts


def _inner(pair: _Pair) -> Iterator[_Pair]:
    """The pairs of what two nodes or lists of one type hold, the first at the end."""
    left, right, left_near, right_near = pair
    if isinstance(left, ast.AST):
        near = _nearest(left, left_near), _nearest(right, right_near)
        for field in reversed(left._fields):
            if field not in SKIPPED:
                parts = getattr(left, field, None), getattr(right, field, None)
                yield (*parts, *near)
    elif isinstance(left, list) and isinstance(right, list):
        for index in reversed(range(max(len(left), len(right)))):
            yield _at(left, index), _at(right, index), left_near, right_near


def is_same(original: ast.AST, output: ast.AST) -> bool:
    """Whether both are the same code, `.float()` calls included."""
    return _walked(original, output) == (None, 0)


class _Missing:
    """Stands where one list is shorter; differs from every node."""


def _at(items: list[object], index: int) -> object:
    return items[index] if index < len(items) else _Missing()


def _nearest(node: object, near: ast.AST) -> ast.AST:
    if isinstance(
        node, (ast.stmt, ast.ExceptHandler, ast.arguments, ast.match_case)
    ):
        return node if hasattr(node, "lineno") else near
    return near


def _is_added(left: object, right: ast.Call) -> bool:
    """Whether the output has a cast where the original has none of this kind."""
    if is_float_cast(right):
        return not is_float_cast(left)
    return cast_like(right) is not None and cast_like(left) is None


def is_float_cast(node: object) -> bool:
    """`x.float()`"""
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return False
    return isinstance(node.func, ast.Attribute) and node.func.attr == "float"


def cast_like(node: object) -> ast.expr | None:
    """`out` of `x.to(out.dtype)`, which has a name."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return None
    func, given = node.func, node.args[0]
    is_cast = isinstance(func, ast.Attribute) and func.attr == "to"
    if not is_cast or not isinstance(given, ast.Attribute):
        return None
    is_named = given.attr == "dtype" and dotted_name(given.value) is not None
    return given.value if is_named else None


def _difference(left: ast.AST, right: ast.AST) -> Difference:
    return Difference(
        getattr(left, "lineno", 1),
        getattr(right, "lineno", 1),
        excerpt(left),
        excerpt(right),
    )


def excerpt(node: ast.AST) -> str:
    """The first line of a node's source, shortened."""
    if isinstance(node, ast.Module):
        return "the end of the file"
    text = ast.unparse(node).strip().partition("\n")[0]
    return text if len(text) <= EXCERPT else text[: EXCERPT - 3] + "..."
