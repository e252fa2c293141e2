"""Expressions without apex: what each becomes, as a tree and as edits."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from amp_migrate.apex.names import ApexNames
from amp_migrate.apex.refused import Refused
from amp_migrate.apex.replacements import Replacements
from amp_migrate.model.syntax.module import Module
from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.model.syntax.substitution import with_names
from amp_migrate.rewrite.edits import Edit, ReplaceExpression, Template

_Node = TypeVar("_Node", bound=ast.AST)


class Expressions:
    """Copies trees, with what apex stood for in place of apex."""

    def __init__(
        self, module: Module, names: ApexNames, replacements: Replacements
    ) -> None:
        self.module = module
        self.names = names
        self.replacements = replacements
        self.inlined: dict[ast.AST, ast.expr] = {}
        """Names of scaled losses, and the losses."""

    def copy(self, node: _Node, edits: list[Edit]) -> _Node:
        """`node` without apex; `edits` gets what makes the text so. Names of apex that stay are
        marked.
        """
        if isinstance(node, ast.expr):
            replaced = self._replaced(node, edits)
            if replaced is not None:
                return replaced  # type: ignore[return-value]
        new: Any = type(node)(
            **{
                name: self._field(getattr(node, name, None), edits)
                for name in node._fields
            }
        )
        ast.copy_location(new, node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = self.names.canonical(node)
            if name is not None and name != "apex":
                new.apex = name
        found: _Node = new
        return found

    def _field(self, value: object, edits: list[Edit]) -> object:
        if isinstance(value, ast.AST):
            return self.copy(value, edits)
        if isinstance(value, list):
            return [self._field(item, edits) for item in value]
        return value

    def _replaced(self, node: ast.expr, edits: list[Edit]) -> ast.expr | None:
        if node in self.inlined:
            return self._inlined(node, edits)
        if (
            isinstance(node, ast.Call)
            and (name := self.names.canonical(node.func)) is not None
        ):
            return self._made(node, self.replacements.call(node, name), edits)
        if isinstance(node, ast.Dict):
            return self._made(
                node, self.replacements.without_state(node), edits
            )
        if isinstance(node, ast.IfExp):
            return self._if(node, edits)
        if (
            isinstance(node, (ast.Name, ast.Attribute))
            and (name := self.names.canonical(node)) is not None
        ):
            return self._made(
                node, self.replacements.reference(node, name), edits
            )
        return None

    def _inlined(self, node: ast.expr, edits: list[Edit]) -> ast.expr:
        loss = self.inlined[node]
        text = self.module.source(loss)
        text = f"({text})" if "\n" in text else text
        edits.append(ReplaceExpression(self.module.span(node), Template(text)))
        return self.copy(loss, [])

    def _made(
        self, node: ast.expr, made: Template | None, edits: list[Edit]
    ) -> ast.expr | None:
        """The tree of a template whose parts are expressions of the module."""
        if made is None:
            return None
        edits.append(ReplaceExpression(self.module.span(node), made))
        inner = {
            self.module.span(n): n
            for n in nodes_in(node)
            if isinstance(n, ast.expr)
        }
        parts = {
            f"__part_{i}__": inner[span] for i, span in enumerate(made.parts)
        }
        text = made.text
        for i in reversed(range(len(made.parts))):
            text = text.replace(f"${i}", f"__part_{i}__")
        copies = {name: self.copy(part, edits) for name, part in parts.items()}
        new: ast.expr = with_names(
            _expression(text), lambda name: copies.get(name.id, name)
        )
        if (
            isinstance(node, ast.Call)
            and self.names.canonical(node.func) == "apex.amp.master_params"
        ):
            new.masters = True  # type: ignore[attr-defined]
        return new

    def _if(self, node: ast.IfExp, edits: list[Edit]) -> ast.expr | None:
        truth = self.truth(node.test)
        if truth is None:
            return None
        chosen = node.body if truth else node.orelse
        edits.append(
            ReplaceExpression(
                self.module.span(node),
                Template("$0", (self.module.span(chosen),)),
            )
        )
        return self.copy(chosen, edits)

    # conditions

    def truth(self, test: ast.expr) -> bool | None:
        """What a condition is while apex is installed; None where it depends on something else."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                truth = self.truth(inner)
                return None if truth is None else not truth
            case ast.BoolOp(op=op, values=values):
                known = [self.truth(value) for value in values]
                decisive = isinstance(op, ast.Or)
                if decisive in known:
                    return decisive
                return None if None in known else not decisive
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compared(left, op, right)
            case ast.Call(func=ast.Name(id="hasattr"), args=[thing, _]):
                return True if self.names.canonical(thing) is not None else None
            case ast.Name():
                return (
                    True
                    if self.names.is_flag(test)
                    or self.names.canonical(test) is not None
                    else None
                )
        return None

    def _compared(
        self, left: ast.expr, op: ast.cmpop, right: ast.expr
    ) -> bool | None:
        if (
            isinstance(right, ast.Constant)
            and right.value is None
            and self.names.canonical(left) is not None
        ):
            return {
                ast.Is: False,
                ast.Eq: False,
                ast.IsNot: True,
                ast.NotEq: True,
            }.get(type(op))
        if not isinstance(left, ast.Constant) or not isinstance(
            op, (ast.In, ast.NotIn)
        ):
            return None
        in_modules = (
            left.value == "apex" and ast.unparse(right) == "sys.modules"
        )
        of_apex = (
            isinstance(right, ast.Attribute)
            and right.attr == "__dict__"
            and self.names.canonical(right.value) is not None
        )
        return isinstance(op, ast.In) if in_modules or of_apex else None

    def test(self, node: ast.expr, edits: list[Edit]) -> ast.expr:
        """A condition that is not known, without the parts of it that are."""
        if not isinstance(node, ast.BoolOp):
            return self.copy(node, edits)
        rest = [value for value in node.values if self.truth(value) is None]
        if len(rest) == len(node.values):
            new = ast.BoolOp(
                node.op, [self.test(value, edits) for value in rest]
            )
            return ast.copy_location(new, node)
        word = " and " if isinstance(node.op, ast.And) else " or "
        spans = tuple(self.module.span(value) for value in rest)
        text = word.join(f"${i}" for i in range(len(rest)))
        edits.append(
            ReplaceExpression(self.module.span(node), Template(text, spans))
        )
        copies = [self.test(value, edits) for value in rest]
        return copies[0] if len(copies) == 1 else ast.BoolOp(node.op, copies)


def _expression(text: str) -> ast.expr:
    return ast.parse(f"({text})", mode="eval").body


def marked(statements: Iterable[ast.AST]) -> list[tuple[ast.AST, str]]:
    """The names of apex that are left in trees made by `Expressions.copy`."""
    found = []
    for statement in statements:
        for node in nodes_in(statement):
            name = getattr(node, "apex", None)
            if name is not None:
                found.append((node, name))
    return found


def same(one: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> bool:
    """Whether a block with apex (by now without) is the same code as the one that its author wrote
    for running without.

    The master parameters of an optimizer are the parameters that the other block names.
    """
    return len(one) == len(other) and all(map(_alike, one, other))


def _alike(one: object, other: object) -> bool:
    """Whether two parts of trees are the same, wherever they stand."""
    if getattr(one, "masters", False) and _names_parameters(other):
        return True
    if isinstance(one, ast.AST):
        fields = [
            name for name in one._fields if name not in ("ctx", "type_comment")
        ]
        return type(one) is type(other) and all(
            _alike(getattr(one, f, None), getattr(other, f, None))
            for f in fields
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(map(_alike, one, other))
        )
    return one == other and type(one) is type(other)


def _names_parameters(node: object) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "parameters"
    )


__all__ = ["Expressions", "Refused", "marked", "same"]
