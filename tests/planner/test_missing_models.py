"""Models that are None in some phase of a training are not asked for their device."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.model.program import Program
from amp_migrate.planner.regions.missing_models import may_be_missing

PROGRAM = """
import torch.nn.functional as F

def fit(model, old, optimizer, loader, train=True):
    {before}
    for x, y in loader:
        {within}
        loss = F.cross_entropy(model(x), y)
        {late}
        loss.backward()
        optimizer.step()
"""


def is_missing(name: str, before: str = "", within: str = "", late: str = "") -> bool:
    parts = {"before": before or "pass", "within": within or "pass", "late": late or "pass"}
    program = Program(PROGRAM.format(**parts), "program.py")
    scope = next(one for one in program.module.scopes.values() if one.is_function)
    read = next(n for n in program.module.parents if isinstance(n, ast.Name) and n.id == name)
    return may_be_missing(program, read, scope)


@pytest.mark.parametrize(
    "parts",
    [
        {"late": "if train: loss = loss + F.mse_loss(model(x), old(x))"},
        {"before": "if train: old.eval()"},
        {"late": "loss = loss + (old(x).mean() if train else 0)"},
        {"before": "old and old.eval()"},
    ],
)
def test_one_that_only_a_condition_runs_may_be(parts: dict[str, str]) -> None:
    assert is_missing("old", **parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "old.eval()", "late": "if train: loss = loss + old(x).mean()"},
        {"late": "loss = loss + F.mse_loss(model(x), old(x))"},
        {"before": "help(old)"},
    ],
)
def test_one_that_always_runs_or_is_handed_on_is_there(parts: dict[str, str]) -> None:
    assert not is_missing("old", **parts)


def test_the_trained_model_is_there() -> None:
    assert not is_missing("model", before="if train: model.train()")


def test_a_variable_that_is_none_first() -> None:
    text = "import lib\n\nnet = None\nif lib.big:\n    net = lib.net()\n    net.eval()\nlib.loss().backward()\n"
    program = Program(text, "program.py")
    root = program.module.root
    read = next(n for n in program.module.parents if isinstance(n, ast.Name) and n.id == "net")
    assert may_be_missing(program, read, root)
    always = Program(text.replace("net = None", "net = lib.small()"), "program.py")
    read = next(n for n in always.module.parents if isinstance(n, ast.Name) and n.id == "net")
    assert not may_be_missing(always, read, always.module.root)
