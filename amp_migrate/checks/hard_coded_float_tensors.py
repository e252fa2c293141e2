"""A float32 tensor type is written out where values under autocast are half."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.checks._finding import Finding, Rule, finding_at
from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import FUNCTIONS
from amp_migrate.torch_facts.methods import TYPES

RULE = Rule("hard-coded-float-tensors", severity="info", default=False)
_MESSAGE = (
    "float32 written out mixes with half precision, and the result is float32 again, or an "
    "extension raises: "
    "use `new_tensor`, `new_zeros` or `torch.randn_like` of a neighbour"
)


def check(
    program: Program,
    settings: Settings,
) -> Iterator[Finding]:
    """Uses of the types in functions that run under autocast."""
    for use in program.uses.of("torch.FloatTensor", "torch.cuda.FloatTensor"):
        if (
            program.regions.enabled_around(use.node) is not None
            and not _is_annotation(program, use.node)
            and not _is_converted(program, use.node)
        ):
            yield finding_at(program, use.node, RULE, _MESSAGE)


def _is_annotation(program: Program, node: ast.AST) -> bool:
    """Whether a type is only told, of a parameter, a result or a variable."""
    inner = node
    for around in program.module.ancestors(node):
        if isinstance(around, (ast.arg, ast.AnnAssign)):
            return around.annotation is inner
        if isinstance(around, FUNCTIONS):
            return around.returns is inner
        inner = around
    return False


def _is_converted(program: Program, node: ast.AST) -> bool:
    """Whether the next statement gives the tensor the type of another: `x = x.type(y.type())`."""
    made = program.module.statement_of(node)
    if not isinstance(made, ast.Assign) or not isinstance(
        made.targets[0], ast.Name
    ):
        return False
    block = program.module.block_of(made)
    behind = block[next(i for i, s in enumerate(block) if s is made) + 1 :]
    value = getattr(behind[0], "value", None) if behind else None
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in TYPES
        and isinstance(value.func.value, ast.Name)
        and value.func.value.id == made.targets[0].id
    )
