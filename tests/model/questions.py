"""Ask the model of a small program about the last statement of it."""

from __future__ import annotations

import ast
import textwrap

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope

HEAD = "import torch\nfrom torch import nn, optim\nimport torch.nn.functional as F\n"


def asked(source: str) -> tuple[Program, ast.expr, Scope]:
    """The program, the expression `(...)` of its call of `ask`, and the scope that it stands in."""
    program = Program(HEAD + textwrap.dedent(source), "program.py")
    for scope in program.module.scopes.values():
        for call in scope.calls:
            if isinstance(call.func, ast.Name) and call.func.id == "ask":
                return program, call.args[0], scope
    raise LookupError("the program asks nothing")
