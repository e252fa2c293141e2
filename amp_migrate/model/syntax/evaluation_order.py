"""The order in which Python evaluates the parts of an expression or statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.syntax.child_nodes import children
from amp_migrate.model.syntax.module import FUNCTIONS


def evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Everything evaluated in an expression or simple statement, operands before what is made of
    them.
    """
    stack = [(node, False)]
    while stack:
        here, done = stack.pop()
        if done:
            yield here
        elif isinstance(here, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = (
                here.targets if isinstance(here, ast.Assign) else [here.target]
            )
            stack.extend((target, False) for target in reversed(targets))
            if here.value is not None:
                stack.append((here.value, False))
        elif not isinstance(here, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            stack.append((here, True))
            stack.extend((child, False) for child in reversed(children(here)))
