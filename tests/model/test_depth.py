"""Values are followed so deep that Python's own stack is enough, through however many functions."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.model.program import Program
from amp_migrate.model.tensors import inference

_TEXT = """\
import torch


def first(v):
    a = v * 2
    b = a * 2
    return b * 2


def second(v):
    a = first(v)
    b = a * 2
    return b * 2


def train(loader):
    layer = torch.nn.Linear(4, 4)
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            y = second(layer(x))
            z = y * 2
            print(z)
"""


def dtype_of_z() -> str | None:
    """What is known of `z` where it is printed."""
    program = Program(_TEXT, "train.py")
    (call,) = (
        node
        for node in ast.walk(program.module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node) == "print(z)"
    )
    return program.precision.half(call.args[0], program.module.scope_of(call))


def test_values_are_followed_through_calls() -> None:
    assert dtype_of_z() == "float16"


def test_all_levels_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few of them one function has."""
    monkeypatch.setattr(inference, "_DEEPEST", 10)
    assert dtype_of_z() is None
