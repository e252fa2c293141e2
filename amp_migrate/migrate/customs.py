"""Custom autograd functions of a migrated file: they keep float32, by `custom_fwd` and `custom_bwd`.

Their forward would run under autocast and their backward outside of it, so that the types differ; extensions would be handed half
pointers. With AMP off the decorators only pass through.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from amp_migrate.checks._functions import BACKWARD, FORWARD, Custom, decorate, decorator, functions
from amp_migrate.edits import Edit
from amp_migrate.migrate.spelling import Spelling
from amp_migrate.model.program import Program
from amp_migrate.names import dotted_name

_CAST = {
    "mm", "matmul", "bmm", "mv", "addmm", "addmv", "addbmm", "baddbmm", "chain_matmul", "einsum", "linear", "prelu", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "multi_dot", "addr", "scaled_dot_product_attention",
}  # fmt: skip


class Decorated(NamedTuple):
    """One edit, and the decorator that it brings."""

    edit: Edit
    decorator: str


def decorations(program: Program, spelling: Spelling) -> Iterator[Decorated]:
    """The decorators that the functions of a one-file program need."""
    th = spelling.torch
    there, back = (
        (
            f'{th}.amp.custom_fwd(device_type="cuda", cast_inputs={th}.float32)',
            f'{th}.amp.custom_bwd(device_type="cuda")',
        )
        if spelling.new_api
        else (f"{th}.cuda.amp.custom_fwd(cast_inputs={th}.float32)", f"{th}.cuda.amp.custom_bwd")
    )
    for custom in functions(program) if len(program.module.files) == 1 else ():
        forward, backward = custom.method("forward"), custom.method("backward")
        if forward is None or backward is None or not _mendable(program, custom) or not _wants(program, custom):
            continue
        yield Decorated(decorate(program, forward, there), there)
        yield Decorated(decorate(program, backward, back), back)


def mends(program: Program, cls: ast.ClassDef) -> bool:
    """Whether a function of this program gets its decorators."""
    own = [c for c in functions(program) if c.node is cls] if len(program.module.files) == 1 else []
    return any(_mendable(program, custom) and _wants(program, custom) for custom in own)


def _methods(custom: Custom) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [m for name in ("forward", "backward") if (m := custom.method(name)) is not None]


def _mendable(program: Program, custom: Custom) -> bool:
    """Whether both methods can be decorated: `custom_fwd` marks the first argument, which must be `ctx`."""
    methods = _methods(custom)
    if len(methods) < 2 or custom.method("setup_context") is not None:
        return False
    return not any(decorator(program, m, FORWARD | BACKWARD) or _one_line(m) for m in methods)


def _wants(program: Program, custom: Custom) -> bool:
    """Whether a function that is applied multiplies, or calls code out of sight, which may be an extension."""
    applied = f"{custom.node.name}.apply" in program.module.text
    return applied and any(_multiplies(program, node) for method in _methods(custom) for node in ast.walk(method))


def _one_line(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return method.body[0].lineno == method.lineno


def _multiplies(program: Program, node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    if not isinstance(node, ast.Call):
        return False
    last = (dotted_name(node.func) or "").rpartition(".")[2]
    name = program.canonical(node.func)
    return last in _CAST or (name is not None and not name.startswith(_KNOWN))


_KNOWN = ("torch.", "numpy.", "math.", "functools.", "itertools.", "os.", "sys.", "warnings.", "typing.")
