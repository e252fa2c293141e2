"""`with amp.scale_loss(...)`: its body, with the loss itself."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amp_migrate.apex.refused import Refused
from amp_migrate.apex.result import (
    Result,
    edits_inside,
    flattened,
    plain_of,
    templates_of,
)
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.rewrite.edits import Edit, Template

if TYPE_CHECKING:
    from amp_migrate.apex.statements import Statements


class ScaledLosses:
    """Takes the blocks of `scale_loss` apart, for the statements of one module."""

    def __init__(self, statements: Statements) -> None:
        self.statements = statements
        self.module = statements.module

    def flat(self, node: ast.With) -> Result:
        """`with amp.scale_loss(loss, optimizer) as scaled_loss:`: the body, with the
        loss itself.
        """
        self.statements.seen.scaled.append(node)
        loss, name = _loss_of(node), node.items[0].optional_vars
        if name is None:
            return flattened(
                self.module.span(node), self.statements.block(node.body)
            )
        if not isinstance(name, ast.Name) or self._stored(name.id, node):
            raise Refused(
                "apex-form",
                node,
                "the scaled loss is assigned to again, or is no plain name",
            )
        reads = [
            n
            for s in node.body
            for n in nodes_in(s)
            if isinstance(n, ast.Name) and n.id == name.id
        ]
        if self._read_elsewhere(name.id, node) or not self._may_inline(
            loss, reads, node
        ):
            return self._named(node, name, loss)
        self.statements.expressions.inlined.update(dict.fromkeys(reads, loss))
        return flattened(
            self.module.span(node), self.statements.block(node.body)
        )

    def _named(self, node: ast.With, name: ast.Name, loss: ast.expr) -> Result:
        edits: list[Edit] = []
        plain = ast.Assign(
            [ast.Name(name.id, ast.Store())],
            self.statements.expressions.copy(loss, edits),
        )
        body = self.statements.block(node.body)
        first = Template(f"{name.id} = $0", (self.module.span(loss),))
        return Result(
            self.module.span(node),
            (ast.copy_location(plain, node), *plain_of(body)),
            (first, *templates_of(body)),
            (*edits, *edits_inside(body)),
            replaced=True,
        )

    def _stored(self, name: str, node: ast.With) -> bool:
        """Whether a name is set, or deleted, within a block."""
        stores = (ast.Store, ast.Del)
        inner = (n for s in node.body for n in nodes_in(s))
        return any(
            isinstance(n, ast.Name)
            and n.id == name
            and isinstance(n.ctx, stores)
            for n in inner
        )

    def _read_elsewhere(self, name: str, node: ast.With) -> bool:
        """Whether the name is read outside the `with`s that bind it."""
        scope = self.module.scope_of(node)
        for other in self.module.parents:
            if (
                isinstance(other, ast.Name)
                and other.id == name
                and isinstance(other.ctx, ast.Load)
            ):
                if self.module.scope_of(
                    other
                ) is scope and not self._in_own_with(other, name):
                    return True
        return False

    def _in_own_with(self, read: ast.Name, name: str) -> bool:
        for above in self.module.ancestors(read):
            if isinstance(above, ast.With) and self.statements.is_call_of(
                above.items[0].context_expr, "scale_loss"
            ):
                bound = above.items[0].optional_vars
                if isinstance(bound, ast.Name) and bound.id == name:
                    return True
        return False

    def _may_inline(
        self, loss: ast.expr, reads: Sequence[ast.expr], node: ast.With
    ) -> bool:
        """A name may be read anywhere in a body that leaves it alone; any other loss once, as the
        receiver of backward.
        """
        if isinstance(loss, ast.Name):
            return not self._stored(loss.id, node)
        receiver = self.module.parents[reads[0]] if len(reads) == 1 else None
        first = node.body[0]
        return (
            isinstance(receiver, ast.Attribute)
            and receiver.attr == "backward"
            and isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Call)
            and first.value.func is receiver
        )


def _loss_of(node: ast.With) -> ast.expr:
    call = node.items[0].context_expr
    assert isinstance(call, ast.Call)
    named = (k.value for k in call.keywords if k.arg == "loss")
    loss = call.args[0] if call.args else next(named, None)
    if loss is None or isinstance(loss, (ast.Starred, ast.List, ast.Tuple)):
        message = "`amp.scale_loss` without one loss"
        raise Refused("apex-form", node, message)
    return loss
