"""A model that runs inside the statement of its loss, `criterion(model(x), y)`: what it gives can
get a name, so that the two can be told apart.

The statement must evaluate nothing before the model that the model could change, or that could be
seen from it: names, constants, settings, and losses that only compute.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.syntax.queries import (
    any_in,
    calls_in,
    names_in,
    nodes_in,
)
from amp_migrate.records import NamedTuple

Asked = Callable[[ast.Call], bool]
_COMPUTING = (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List)


class Operand(NamedTuple):
    """A part of a statement, and the call in it that runs a model."""

    expr: ast.expr
    model: ast.Call


@dataclass(frozen=True, eq=False)
class Unnamed:
    """A statement, and what in it can be computed before it, in this order."""

    statement: ast.stmt
    operands: tuple[Operand, ...]
    losses: frozenset[str]
    """The source of what is called for losses in it that only compute."""


class Nameable:
    """What can be named in one expression."""

    def __init__(
        self, runs_model: Asked, is_loss: Asked, computes: Asked
    ) -> None:
        """`runs_model` and `is_loss` are asked about calls; `computes`: of a loss, whether it does
        nothing else.
        """
        self._runs_model = runs_model
        self._is_loss = is_loss
        self._computes = computes

    def operands(self, root: ast.expr) -> tuple[Operand, ...]:
        """The largest parts of `root` that run a model and compute no loss; none where one of them
        may not be computed before all that stands in front of it.
        """
        found: list[Operand] = []
        before: list[ast.expr] = []
        barred = False
        for part in self._evaluated(root):
            if part is None:
                barred = True
            elif not self._has(part, self._runs_model):
                before.append(part)
            elif barred or not all(_is_inert(one, part) for one in before):
                return ()
            else:
                running = filter(self._runs_model, calls_in(part))
                found.append(Operand(part, next(running)))
        return tuple(found)

    def losses(self, root: ast.expr) -> frozenset[str]:
        """The source of what is called for losses in `root` that only compute."""
        return frozenset(
            ast.unparse(call.func)
            for call in calls_in(root)
            if self._computes(call)
        )

    def _has(self, node: ast.AST, asked: Asked) -> bool:
        return any(map(asked, calls_in(node)))

    def _evaluated(self, node: ast.expr) -> Iterator[ast.expr | None]:
        """The parts, in the order of evaluation; None stands for what may do anything."""
        if not self._has(node, self._runs_model) or not self._has(
            node, self._is_loss
        ):
            yield node
        elif isinstance(node, ast.Call) and not _is_starred(node):
            if dotted_name(node.func) is None:
                yield from self._evaluated(node.func)
            for given in [*node.args, *(word.value for word in node.keywords)]:
                yield from self._evaluated(given)
            if not (self._is_loss(node) and self._computes(node)):
                yield None
        elif isinstance(node, ast.Attribute):
            yield from self._evaluated(node.value)
        elif isinstance(node, _COMPUTING):
            for part in _parts(node):
                yield from self._evaluated(part)
        else:
            yield None


def _is_starred(call: ast.Call) -> bool:
    return any(isinstance(one, ast.Starred) for one in call.args) or any(
        word.arg is None for word in call.keywords
    )


def _parts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    return list(getattr(node, "elts", ()))


def _is_inert(node: ast.expr, model: ast.expr) -> bool:
    """Whether `node` is the same before and after `model` is evaluated: it holds names, constants
    and settings, which are attributes of what `model` does not name.
    """
    if any_in(node, ast.Call, ast.Await, ast.NamedExpr, ast.Lambda, ast.Yield):
        return False
    reads = [
        one
        for one in nodes_in(node)
        if isinstance(one, (ast.Attribute, ast.Subscript))
    ]
    if any_in(model, ast.NamedExpr):
        return False
    named = {"self"} | names_in(model)
    return not any(names_in(one) & named for one in reads)
