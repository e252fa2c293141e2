"""The one pass over the tree that applies all edits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import libcst as cst

from amp_migrate.model.syntax.span import Span
from amp_migrate.rewrite.edits import (
    AddArgument,
    AddDecorator,
    AddDictEntry,
    AddImport,
    AddParameter,
    Edit,
    InsertAfter,
    InsertBefore,
    ReplaceExpression,
    ReplaceStatement,
    WrapStatements,
)
from amp_migrate.rewrite.writer import additions, imports, templates
from amp_migrate.rewrite.writer.blocks import (
    Block,
    Orders,
    Wrap,
    divided,
    empty_block_body,
)
from amp_migrate.rewrite.writer.errors import EditConflict, SpanNotFound
from amp_migrate.rewrite.writer.locate import Located
from amp_migrate.rewrite.writer.precedence import (
    ATOM,
    BRACKETED,
    fit,
    has_plain_parentheses,
    is_tight,
    level,
    required,
)
from amp_migrate.rewrite.writer.reindent import Depth, indented
from amp_migrate.rewrite.writer.templates import without_semicolon
from amp_migrate.rewrite.writer.walk import Transformer


class Rewriter(Transformer):
    """Applies edits; descends only where one of them is."""

    def __init__(self, located: Located, edits: Sequence[Edit]) -> None:
        super().__init__()
        self.located = located
        self.orders: dict[cst.CSTNode, Orders] = {}
        self.replacements: dict[cst.CSTNode, ReplaceExpression] = {}
        self.additions: dict[
            cst.CSTNode,
            list[AddParameter | AddDecorator | AddArgument | AddDictEntry],
        ] = {}
        self.imports = [edit for edit in edits if isinstance(edit, AddImport)]
        self.ancestors: list[cst.CSTNode] = []
        self.old: dict[cst.CSTNode, Any] = {}
        self.new: dict[cst.CSTNode, Any] = {}
        self.lines: dict[cst.CSTNode, Any] = {}
        for edit in edits:
            self._take(edit)
        self._order_wraps(
            edit for edit in edits if isinstance(edit, WrapStatements)
        )
        self.pending = {*self.orders, *self.replacements, *self.additions}

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.ancestors.append(node)
        return self.located.holds_wanted(node)

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        self.ancestors.pop()
        if original_node is updated_node and original_node not in self.pending:
            return updated_node
        node = self._with_additions(original_node, updated_node)
        node = self._with_lines(original_node, node)
        self.old[original_node] = node
        node = self._replaced(original_node, node)
        self.new[original_node] = node
        return node

    def check_all_done(self) -> None:
        """Raises SpanNotFound where an edit met a node that is no statement of a block, such as an
        `elif`.
        """
        for node in self.pending:
            start = self.located.positions[node].start
            raise SpanNotFound(
                f"the {type(node).__name__} at byte {start} is not the kind of node that the "
                "edit needs"
            )

    def _take(self, edit: Edit) -> None:
        match edit:
            case InsertBefore(anchor, statements, above):
                orders = self._order(anchor)
                (orders.above if above else orders.before).extend(statements)
            case InsertAfter(anchor, statements):
                orders = self._order(anchor)
                orders.after.extend(statements)
                orders.ends_line |= not statements
            case ReplaceStatement(target, statements):
                self._order(target).replacement = statements
            case ReplaceExpression(target=target):
                self.replacements[self.located.expression(target)] = edit
            case AddParameter(function):
                self._add(
                    self.located.statement(function), cst.FunctionDef, edit
                )
            case AddDecorator(function):
                self._add(
                    self.located.statement(function), cst.FunctionDef, edit
                )
            case AddArgument(call):
                self._add(self.located.expression(call), cst.Call, edit)
            case AddDictEntry(target):
                self._add(self.located.expression(target), cst.Dict, edit)

    def _order(self, span: Span) -> Orders:
        return self.orders.setdefault(self.located.statement(span), Orders())

    def _add(
        self,
        node: cst.CSTNode,
        kind: type[cst.CSTNode],
        edit: AddParameter | AddDecorator | AddArgument | AddDictEntry,
    ) -> None:
        if not isinstance(node, kind):
            raise SpanNotFound(
                f"{edit}: a {type(node).__name__} is there, no {kind.__name__}"
            )
        self.additions.setdefault(node, []).append(edit)

    def _order_wraps(self, wraps: Iterable[WrapStatements]) -> None:
        """Of wraps that start at one statement the longest opens first."""
        for edit in sorted(wraps, key=lambda edit: -edit.last.end):
            wrap = Wrap(
                edit.header,
                self.located.statement(edit.first),
                self.located.statement(edit.last),
            )
            self._order(edit.first).opens.append(wrap)
            self._order(edit.last).closes.append(wrap)

    def _with_additions(self, original: cst.CSTNode, node: Any) -> Any:
        for edit in self.additions.get(original, ()):
            self.pending.discard(original)
            match edit:
                case AddParameter():
                    node = additions.add_parameter(
                        node, edit, self._depth().unit
                    )
                case AddDecorator():
                    node = additions.add_decorator(node, edit)
                case AddArgument():
                    node = additions.add_argument(
                        node, edit, self._depth().unit
                    )
                case AddDictEntry():
                    node = additions.add_dict_entry(
                        node, edit, self._depth().unit
                    )
        return node

    def _replaced(self, original: cst.CSTNode, node: Any) -> Any:
        edit = self.replacements.get(original)
        if edit is None or not isinstance(original, cst.BaseExpression):
            return node
        self.pending.discard(original)

        outer = 1 if type(node) in BRACKETED and node.lpar else 0
        # Parentheses around the target stay where they are, but for those that it takes along into
        # `(a + b).float()`; those of a tuple or a generator are its own.
        own = node.with_changes(
            lpar=node.lpar[len(node.lpar) - outer :], rpar=node.rpar[:outer]
        )
        new = templates.expression(
            edit.replacement,
            lambda span, _: (
                own if span == edit.target else self._part(span, False)
            ),
        )
        lpar, rpar = node.lpar[: len(node.lpar) - outer], node.rpar[outer:]
        moved = (
            len(lpar) == 1
            and edit.replacement.text.startswith("$0.")
            and level(own) < ATOM
        )
        if (
            not lpar
            or moved
            and has_plain_parentheses(original)
            or self._can_shed(original, new)
        ):
            return fit(new, original, self.ancestors)
        return new if new.lpar else new.with_changes(lpar=lpar, rpar=rpar)

    def _can_shed(
        self, original: cst.BaseExpression, new: cst.BaseExpression
    ) -> bool:
        """`(a + b).backward()` becomes `f(a + b).backward()`, unless a word would run into it
        (`return(a + b).x`).
        """
        parent = self.ancestors[-1]
        start = self.located.positions[original.lpar[0]].start
        before = self.located.source[max(start - 1, 0) : start]
        return (
            is_tight(parent, original)
            and not (before.isalnum() or before == b"_")
            and level(new) >= required(parent, original)
        )

    def _with_lines(self, original: cst.CSTNode, node: Any) -> Any:
        match original:
            case cst.SimpleStatementLine(body=[small]):
                self.lines[small] = node
            case cst.Module():
                return self._module(original, node)
            case cst.IndentedBlock():
                block = self._block(original.body, self._depth(original))
                if block is not None:
                    body = block.lines(
                        original.body, node.body
                    ) or empty_block_body(node.header.newline.value)
                    return node.with_changes(
                        body=body, footer=[*block.orphans, *node.footer]
                    )
            case cst.SimpleStatementSuite():
                return self._suite(original, node)
        return node

    def _block(self, statements: Sequence[Any], depth: Depth) -> Block | None:
        """The block's rewriter, where one of its statements is to be edited."""
        smalls = [
            small
            for line in statements
            if _is_line(line)
            for small in line.body
        ]
        members = [*statements, *smalls]
        ordered = [member for member in members if member in self.orders]
        if not ordered:
            return None
        self._check_wraps(ordered)
        self.pending.difference_update(ordered)
        return Block(self.orders, self._part, self._old_part, depth)

    def _check_wraps(self, members: list[Any]) -> None:
        for member in members:
            for wrap in self.orders[member].opens:
                if wrap.last not in members:
                    raise EditConflict(
                        f"with {wrap.header}: its first and last statement are not in one block"
                    )

    def _module(self, original: cst.Module, node: cst.Module) -> cst.Module:
        block = self._block(original.body, self._depth())
        if block is not None:
            node = self._with_comments_below(original, node)
            lines = block.lines(original.body, node.body)
            node = node.with_changes(
                body=lines, footer=[*block.orphans, *node.footer]
            )
        for edit in self.imports:
            node = imports.add_import(node, edit)
        return node

    def _with_comments_below(
        self, original: cst.Module, node: cst.Module
    ) -> cst.Module:
        """LibCST gives the comments of the first statement to the module; a wrap takes
        them along.
        """
        header, comments = divided(node.header)
        first: Any = node.body[0]
        if not any(
            self.orders.get(small, Orders()).opens
            for small in _parts_of(original.body[0])[:2]
        ):
            return node
        return node.with_changes(
            header=header,
            body=[first.with_changes(leading_lines=comments), *node.body[1:]],
        )

    def _suite(self, original: cst.SimpleStatementSuite, node: Any) -> Any:
        depth = self._depth()
        block = self._block([original], depth)
        if block is None:
            return node
        smalls = block.small(original.body, node.body)
        if smalls is not None:
            return node.with_changes(body=smalls)
        line = cst.SimpleStatementLine(original.body)
        edited = cst.SimpleStatementLine(
            node.body, trailing_whitespace=node.trailing_whitespace
        )
        newline = node.trailing_whitespace.newline
        lines = block.lines(
            [line], [indented(edited, depth)]
        ) or empty_block_body(newline.value)
        return cst.IndentedBlock(
            lines,
            header=cst.TrailingWhitespace(newline=newline),
            indent=depth.unit,
        )

    def _depth(self, block: cst.IndentedBlock | None = None) -> Depth:
        """That of a block, or of the innermost one around the node just left."""
        default = self.located.module.default_indent
        blocks = [
            *(
                node
                for node in self.ancestors
                if isinstance(node, cst.IndentedBlock)
            ),
            *([block] if block else []),
        ]
        units = [
            default if node.indent is None else node.indent for node in blocks
        ]
        return Depth(
            "".join(units),
            units[-1] if units else self.located.prevailing_indent,
            default,
        )

    def _part(self, span: Span, wants_statement: bool) -> Any:
        return self._filled(span, wants_statement, self.new)

    def _old_part(self, span: Span, wants_statement: bool) -> Any:
        return self._filled(span, wants_statement, self.old)

    def _filled(
        self, span: Span, wants_statement: bool, known: dict[cst.CSTNode, Any]
    ) -> Any:
        statement = self.located.statements.get(span)
        if wants_statement and statement is not None:
            return self._statement_part(statement)
        required = wants_statement or statement is None
        node = (
            self.located.expression(span)
            if required
            else self.located.expressions.get(span)
        )
        return node if node is None else known.get(node, node)

    def _statement_part(self, node: cst.CSTNode) -> Any:
        is_target = (
            node in self.orders and self.orders[node].replacement is not None
        )
        new = self.new.get(node, node)
        if isinstance(node, cst.BaseCompoundStatement):
            return new.with_changes(leading_lines=()) if is_target else new
        line = self.lines.get(node)
        if line is None or is_target:
            return cst.SimpleStatementLine([without_semicolon(new)])
        return line.with_changes(body=[without_semicolon(new)])


def _is_line(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite)


def _parts_of(line: Any) -> list[Any]:
    return [line, *line.body] if _is_line(line) else [line]
