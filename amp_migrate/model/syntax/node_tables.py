"""What is known of each node of a file: its parent, its block, the scope that it opens.

A node that leads into another file (the class of a model, who calls a function) is asked of the
program at hand like its own: where its own table has nothing, that of the node's file answers.
"""

from __future__ import annotations

import ast
from typing import TypeVar
from weakref import WeakSet

from amp_migrate.model.naming.scopes import Scope

Key = TypeVar("Key", bound=ast.AST)
Value = TypeVar("Value")


class NodeTable(dict[Key, Value]):
    """A table of one file, or of the files of one program; `get`, `in` and loops keep to these."""

    _kind: WeakSet[NodeTable[Key, Value]]

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init_subclass__(cls) -> None:
        """Tables of one kind answer for each other, as long as they are in use."""
        cls._kind = WeakSet()

    def __init__(self) -> None:
        """An empty table."""
        super().__init__()
        self._kind.add(self)

    def __missing__(self, node: Key) -> Value:
        """What the file of `node` has. Raises KeyError for a node of no file."""
        for table in list(self._kind):
            if node in table:
                return table[node]
        raise KeyError(node)


class Parents(NodeTable[ast.AST, ast.AST]):
    """The node above each."""

    def __missing__(self, node: ast.AST) -> ast.AST:
        """The same; a call made on the way stands where its function is named."""
        try:
            return super().__missing__(node)
        except KeyError:
            if isinstance(node, ast.Call):
                return self[node.func]
            raise


class Blocks(NodeTable[ast.stmt, list[ast.stmt]]):
    """The siblings of each statement, itself among them."""


class Scopes(NodeTable[ast.AST, Scope]):
    """The scope that a module, function, class or lambda opens."""
