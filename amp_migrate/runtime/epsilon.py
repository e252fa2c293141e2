"""Constants that keep a division finite in float32 and vanish in float16."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amp_migrate.model.syntax.queries import nodes_in

VANISHES = 2.0**-25
"""Half of the smallest positive float16: this and less is rounded to zero."""


@dataclass(frozen=True)
class Epsilon:
    """`where` is the line of the module's forward, or the attribute that holds the value."""

    value: float
    where: str


def epsilons(module: Any) -> list[Epsilon]:
    """Those that `module` has as an attribute or writes in its forward, attributes first."""
    held = [
        Epsilon(float(value), f"its attribute {name}")
        for name, value in vars(module).items()
        if "eps" in name.lower()
        and isinstance(value, float)
        and 0 < value <= VANISHES
    ]
    return [*held, *_written(type(module).forward)]


def _written(forward: Any) -> Iterator[Epsilon]:
    try:
        lines, first = inspect.getsourcelines(forward)
        file = inspect.getsourcefile(forward)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return
    for node in nodes_in(tree):
        for constant in _guards(node):
            place = f"{file}:{first + constant.lineno - 1}"
            yield Epsilon(float(ast.literal_eval(constant)), place)


def _guards(node: ast.AST) -> Iterator[ast.Constant]:
    """Constants that are added, or are the least value of a clamp."""
    candidates: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        candidates = [node.left, node.right]
    elif isinstance(node, ast.Call):
        candidates = [*node.args, *(keyword.value for keyword in node.keywords)]
    for value in candidates:
        if (
            isinstance(value, ast.Constant)
            and isinstance(value.value, float)
            and 0 < value.value <= VANISHES
        ):
            yield value
