"""Take a framework's new setting back: `Trainer(precision="16-mixed")` becomes the call that was
there before.
"""

from __future__ import annotations

import ast

from amp_migrate.records import NamedTuple


class Changed(NamedTuple):
    """One keyword of one kind of call, all as source; a `new` that starts with a dot is a method
    called on its result.
    """

    callee: str
    new: str
    old: str = ""


def restore(tree: ast.AST, changes: frozenset[Changed]) -> None:
    """Undo the declared changes in place, where they have exactly the declared form."""
    if changes:
        _Restorer(changes).visit(tree)


class _Restorer(ast.NodeTransformer):
    def __init__(self, changes: frozenset[Changed]) -> None:
        self.changes = {
            (c.callee, _dump(c.new)): c
            for c in changes
            if not c.new.startswith(".")
        }
        self.methods = {
            (c.callee, c.new[1:-2]) for c in changes if c.new.startswith(".")
        }

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        func = node.func
        if (
            isinstance(func, ast.Attribute)
            and isinstance(func.value, ast.Call)
            and not (node.args or node.keywords)
        ):
            if (ast.unparse(func.value.func), func.attr) in self.methods:
                return func.value
        callee = ast.unparse(func)
        kept: list[ast.keyword] = []
        for entry in node.keywords:
            change = self.changes.get((callee, ast.dump(entry)))
            if change is None:
                kept.append(entry)
            elif change.old:
                kept.append(_keyword(change.old))
        node.keywords = kept
        return node


def _keyword(source: str) -> ast.keyword:
    call = ast.parse(f"f({source})", mode="eval").body
    assert isinstance(call, ast.Call)
    return call.keywords[0]


def _dump(source: str) -> str:
    return ast.dump(_keyword(source))
