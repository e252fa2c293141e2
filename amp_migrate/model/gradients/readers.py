"""Calls that bound or measure gradients: by the facts of libraries; out of sight, by
their names.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.steps.events import EventKind
from amp_migrate.model.syntax.module import (
    Module,
)
from amp_migrate.patterns import pattern
from amp_migrate.torch_facts.clippers import clipper, one_of

if TYPE_CHECKING:
    pass

_CLIPS = pattern(
    r"(?i)^clip_?grad|(^|_)grad(ient)?s?_?clip|dispatch_clip|adaptive_clip|clamp_?grad|^agc$"
    r"|clip_.*grad"
)
_MEASURES = pattern(r"(?i)grad(ient)?s?_?norm_?$|^get_total_norm$")
_NO_CLIPPERS = {"clip_grad_norm_fn", "get_clip_grad"}


def named_reader(canonical: str | None, name: str) -> EventKind | None:
    """What a function out of sight does with gradients: CLIP, READ or None."""
    row = clipper(canonical)
    if row is not None:
        return EventKind.CLIP if row.does == "clip" else EventKind.READ
    if _CLIPS.search(name) and name not in _NO_CLIPPERS:
        return EventKind.CLIP
    return EventKind.READ if _MEASURES.search(name) else None


def called_reader(
    module: Module, func: ast.expr, name: str
) -> EventKind | None:
    """What a call of `func`, whose last name is `name`, does with gradients."""
    if _is_chosen_clipper(module, func):
        return EventKind.CLIP
    return named_reader(module.canonical(func), name)


def _is_chosen_clipper(module: Module, func: ast.expr) -> bool:
    """`getattr(torch.nn.utils, "clip_grad_%s_" % mode)`: one of a library's clippers."""
    if (
        not isinstance(func, ast.Call)
        or dotted_name(func.func) != "getattr"
        or len(func.args) < 2
    ):
        return False
    holder, begun = module.canonical(func.args[0]), _beginning(func.args[1])
    row = one_of(f"{holder}.{begun}") if holder is not None and begun else None
    return row is not None and row.does == "clip"


def _beginning(name: ast.expr) -> str:
    """What is written of a string that is put together."""
    if isinstance(name, ast.JoinedStr):
        return _beginning(name.values[0]) if name.values else ""
    if isinstance(name, ast.BinOp):
        name = name.left
    if isinstance(name, ast.Call) and isinstance(name.func, ast.Attribute):
        name = name.func.value
    text = (
        name.value
        if isinstance(name, ast.Constant) and isinstance(name.value, str)
        else ""
    )
    return re.split(r"[%{]", text)[0]
