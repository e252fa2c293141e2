"""A number that a program prints, compared over seeds."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from amp_migrate.runtime.metric import equivalent, names, printed, value
from amp_migrate.runtime.report import Options, Program
from amp_migrate.runtime.scalars import Scalars, note_returned
from amp_migrate.runtime.supervise import Supervisor
from amp_migrate.runtime.verify import Verifier
from tests.runtime.programs import AFTER, BEFORE, edited


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("accuracy: 0.5\nAccuracy: 0.75", [0.5, 0.75]),
        ("epoch 3 accuracy=91.2% loss=0.1", [91.2]),
        ("{'accuracy': 1e-3}", [1e-3]),
        ("| accuracy | 7 |", [7.0]),
        ("accuracy is fine", []),
        ("test_accuracy: 0.5, accuracy_top5: 0.9", []),
        ("accuracy: -.5", [-0.5]),
    ],
)
def test_what_is_printed_is_read(text: str, found: list[float]) -> None:
    assert printed(text, "accuracy") == found


def test_a_number_that_is_none_is_read_as_such() -> None:
    assert math.isnan(printed("loss: nan", "loss")[0])


@pytest.mark.parametrize(("epochs", "found"), [(None, 3.0), (1, 1.0), (2, 2.0), (4, None)])
def test_the_value_of_an_epoch(epochs: int | None, found: float | None) -> None:
    assert value([1.0, 2.0, 3.0], epochs) == found


@pytest.mark.parametrize(
    ("before", "after", "margin", "verdict"),
    [
        ([0.90, 0.91, 0.92], [0.901, 0.911, 0.919], None, "pass"),
        ([0.90, 0.91, 0.92], [0.70, 0.71, 0.72], None, "fail"),
        ([0.90, 0.91, 0.92], [0.80, 0.91, 1.00], 0.01, "skip"),
        ([0.90, 0.90, 0.90], [0.90, 0.90, 0.90], 0.0, "pass"),
        ([0.90, 0.90, 0.90], [0.91, 0.91, 0.91], 0.0, "fail"),
        ([0.90, 0.91, 0.92], [0.9, math.nan, 0.9], None, "fail"),
        ([0.90, math.nan, 0.92], [0.9, 0.9, 0.9], None, "skip"),
    ],
)
def test_equivalence_is_shown_or_not(
    before: list[float], after: list[float], margin: float | None, verdict: str
) -> None:
    assert equivalent("metric", before, after, margin).verdict == verdict


def test_each_number_is_told_where_they_are_few() -> None:
    found = equivalent("amp: metric a", [0.5, 0.7], [0.5, 0.75], None)
    assert found.message.startswith("0.625 (0.5, 0.75) with AMP, 0.6 (0.5, 0.7) without, over 2 ")


def test_one_run_in_twenty_is_called_equal_where_it_is_as_far_as_the_margin() -> None:
    """The test keeps its level: on the border of the margin it passes in 5% of all cases."""
    import random

    chance, passed, margin = random.Random(0), 0, 0.1
    for _ in range(4000):
        after = [1 + margin + chance.gauss(0, 0.02) for _ in range(4)]
        passed += equivalent("metric", [1.0] * 4, after, margin).verdict == "pass"
    assert 0.03 < passed / 4000 < 0.07


def test_returned_dicts_and_tensorboard_are_read(tmp_path: Path) -> None:
    scalars = Scalars("accuracy")
    assert scalars.returned({"Accuracy": 0.5, "loss": 2}) == {"Accuracy": 0.5, "loss": 2}
    scalars.returned(({"test": {"accuracy": torch.tensor(0.75)}}, "text"))
    scalars.returned({"accuracy": [0.1, 0.2], "model": object()})
    scalars.returned(None)
    assert scalars.values == [0.5, 0.75, 0.1, pytest.approx(0.2)]
    scalars = Scalars("test/accuracy")
    kind = type("SummaryWriter", (), {"add_scalar": lambda self, tag, scalar_value, step=None: tag})
    scalars._follow(SimpleNamespace(SummaryWriter=kind))
    assert kind().add_scalar("Test/Accuracy", 0.5, 1) == "Test/Accuracy"
    kind().add_scalar(tag="test/loss", scalar_value=0.1)
    assert scalars.values == [0.5]


def test_calls_at_the_top_hand_over_what_they_return() -> None:
    text = "def f():\n    g()\nf()\nif __name__ == '__main__':\n    x = f(1)\n    y = 2\n"
    tree = ast.parse(text)
    note_returned(tree)
    name = "__amp_migrate_returned__"
    said = ast.unparse(tree)
    assert said.count(name) == 2
    assert f"x = {name}(f(1))" in said
    assert "\n    g()\n" in said


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "epoch 1/4  train loss 0.43  val acc: 93.7%\nepoch 2/4",
            ["epoch", "train loss", "val acc"],
        ),
        ("[Batch 3/9] [D loss: 0.69]", ["Batch", "D loss"]),
        ("{'loss': 0.3, 'f1': 0.9}", ["loss", "f1"]),
        ("0 0.72 done\n", []),
    ],
)
def test_names_that_a_program_prints(text: str, found: list[str]) -> None:
    assert names(text) == found


PRINTS = (
    "\n\ntrain()\n",
    "\n\ntrain()\nprint('error:', model(data.to(device)).square().mean().item())\n",
)
RETURNS = (
    "\n\ntrain()\n",
    "\n\ndef main():\n    train()\n    return {'error': model(data.to(device)).square().mean()}\n\n\nmain()\n",
)


@pytest.mark.parametrize(
    ("edit", "name", "verdict", "words"),
    [
        (PRINTS, "error", "pass", "over 2 seeds"),
        (RETURNS, "error", "pass", "over 2 seeds"),
        (("loss.backward()", "(0.5 * loss).backward()"), "error", "fail", "does not tell it"),
    ],
)
def test_a_program_is_run_to_its_end(
    edit: tuple[str, str],
    name: str,
    verdict: str,
    words: str,
    supervisor: Supervisor,
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(edited(BEFORE, edit) if verdict == "pass" else BEFORE, encoding="utf-8")
    after = edited(AFTER, edit) if verdict == "pass" else AFTER
    rewrites = {"float16": {str(script.resolve()): after}}
    program = Program(str(script), (), False, rewrites, tmp_path)
    options = Options(
        steps=4, quick=True, drills=False, diagnose=False, metric=name, metric_seeds=2, metric_margin=0.2
    )  # fmt: skip
    report = Verifier(program, options, supervisor).run()
    check = next(one for one in report.checks if one.name == f"amp: metric {name}")
    assert (check.verdict, words in check.message) == (verdict, True), check
