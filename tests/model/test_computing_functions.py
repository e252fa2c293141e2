"""Which functions can make no model, whatever file they stand in."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.model.calls.computing_functions import only_computes
from amp_migrate.model.program import Program

FILE = """
import math
import torch
from lib import make
WIDE = 3
NETS = {{"a": 1}}
class Net(torch.nn.Module):
    pass
def helper(x):
    return torch.relu(x).mean()
def asked(x, build=None):
    {body}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return torch.stack([x ** WIDE, x.sin()], -1)", True),
        ("return helper(x) * math.pi", True),
        ("return [float(one) for one in x]", True),
        ("return Net()", False),
        ("return NETS", False),
        ("return make(x)", False),
        ("return build(x)", False),
        ("return globals()[x]()", False),
        ("return getattr(torch.nn, x)", False),
    ],
)
def test_what_only_computes_makes_no_model(body: str, expected: bool) -> None:
    program = Program(FILE.format(body=body), "file.py")
    asked = next(
        one
        for one in program.module.scopes
        if isinstance(one, ast.FunctionDef) and one.name == "asked"
    )
    assert only_computes(program, asked) is expected
