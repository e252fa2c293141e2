"""Sizes of scaled gradients that the program asks for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.runtime.reads import measuring_lines
from tests.runtime.conftest import Verify
from tests.runtime.programs import AFTER, BEFORE, edited

MEASURES = [
    "p.grad.norm()",
    "p.grad.data.norm(2).item()",
    "torch.norm(p.grad.detach(), 2)",
    "torch.stack([torch.linalg.vector_norm(p.grad) for p in ps])",
    "p.grad.abs().max()",
    "p.grad.clamp_(-1, 1)",
    "(p.grad ** 2)",
    "p.grad.data.float() > 3",
    "max(\n    p.grad.view(-1).norm() for p in ps)",
]
HARMLESS = [
    "p.grad is None",
    "x if p.grad is not None else y",
    "p.grad.div_(4)",
    "p.grad.data / 4",
    "dist.all_reduce(p.grad)",
    "p.grad.zero_()",
    "p.grad.isfinite()",
    "p.grad.shape",
    "p.data.norm()",
]


@pytest.mark.parametrize("text", [*MEASURES, *HARMLESS])
def test_lines_that_measure_gradients(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(f"a = 1\nb = {text}\n", encoding="utf-8")
    assert bool(measuring_lines(str(tmp_path / "x.py"))) == (text in MEASURES)


def test_a_file_that_cannot_be_read_measures_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("p.grad.norm(", encoding="utf-8")
    assert not measuring_lines(str(tmp_path / "x.py"))
    assert not measuring_lines("<string>")


CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
OWN = "norm = sum(p.grad.norm() ** 2 for p in model.parameters() if p.grad is not None)"
UNSCALE = "            scaler.unscale_(optimizer)\n"


def test_a_clipper_of_ones_own_before_unscale_is_seen_and_after_it_is_right(verify: Verify) -> None:
    before, after = edited(BEFORE, (CLIP, OWN)), edited(AFTER, (CLIP, OWN))
    wrong = verify(before, edited(after, (UNSCALE, "")), steps=3).runs["amp"]
    line = before.splitlines().index(f"            {OWN}") + 1
    assert [(found.rule, found.line) for found in wrong.violations] == [
        ("grad-read-before-unscale", line)
    ]
    right = verify(before, after, steps=3)
    assert right.runs["amp"].violations == []
    assert right.runs["amp-off"].parameter_digests == right.runs["original"].parameter_digests
