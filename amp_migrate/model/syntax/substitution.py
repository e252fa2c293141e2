"""Trees made on the way, with something put for their names or left out of them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from typing import Any

from amp_migrate.model.naming.names import dotted_name


def made_call(
    func: ast.expr, args: list[ast.expr], keywords: list[ast.keyword]
) -> ast.Call:
    """A call that no file holds, at the place where its function is named."""
    return ast.copy_location(ast.Call(func, args, keywords), func)


def with_names(tree: ast.AST, put: Callable[[ast.Name], ast.expr]) -> Any:
    """`tree`, changed in place, with what `put` gives for each of its names."""
    return _Names(put).visit(tree)


def with_dotted(tree: ast.expr, put: Mapping[str, str]) -> ast.expr:
    """A copy of an expression with other dotted names for some of its own."""
    changed: ast.expr = _Dotted(put).visit(copy.deepcopy(tree))
    return changed


def without_imports(tree: ast.Module) -> ast.Module:
    """`tree`, changed in place, without its imports and each `try` around nothing else."""
    bare: ast.Module = _Bare().visit(tree)
    return bare


class _Names(ast.NodeTransformer):
    def __init__(self, put: Callable[[ast.Name], ast.expr]) -> None:
        self.put = put

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.put(node)


class _Dotted(ast.NodeTransformer):
    def __init__(self, put: Mapping[str, str]) -> None:
        self.put = put

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._named(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._named(node)

    def _named(self, node: ast.Name | ast.Attribute) -> ast.expr:
        other = self.put.get(dotted_name(node) or "")
        if other is not None:
            return ast.parse(other, mode="eval").body
        kept: ast.expr = self.generic_visit(node)  # type: ignore[assignment]
        return kept


class _Bare(ast.NodeTransformer):
    def visit_Import(self, node: ast.Import) -> None:
        """Gone."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Gone."""

    def visit_Try(self, node: ast.Try) -> ast.Try | None:
        """Gone where it tried imports alone."""
        self.generic_visit(node)
        return (
            node
            if any(not isinstance(s, ast.Pass) for s in node.body)
            else None
        )
