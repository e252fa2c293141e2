"""Values are followed so deep that Python's own stack is enough, through however many functions."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.model.program import Program
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors import inference
from amp_migrate.model.tensors.fact import Fact
from amp_migrate.pipeline.deep_stack import with_deep_stack

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


def dtype_of_z(text: str = _TEXT) -> str | None:
    """What is known of `z` where it is printed."""
    program = Program(text, "train.py")
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


def test_a_chain_of_a_recurrent_model_is_followed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies too deep is asked by itself, and what led there anew."""
    asked: list[ast.expr] = []
    whole = inference.Inference._whole

    def counted(self: inference.Inference, expr: ast.expr, scope: Scope) -> Fact:
        asked.append(expr)
        return whole(self, expr, scope)

    monkeypatch.setattr(inference.Inference, "_whole", counted)
    chain = "".join(
        f"def step{i}(v):\n    a = step{i - 1}(v)\n    return a * 2\n" for i in range(1, 24)
    )
    text = _TEXT.replace("def train", f"step0 = second\n{chain}\n\ndef train")
    text = text.replace("second(layer(x))", "step23(layer(x))")
    assert with_deep_stack(dtype_of_z, text) == "float16"
    assert not asked
