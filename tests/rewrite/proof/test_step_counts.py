"""A fix does nothing twice on any path."""

from __future__ import annotations

import pytest

from amp_migrate.rewrite.proof.step_counts import miscounted

STEP = """import torch


def train(model, optimizer, loader, scaler, clip):
    for x, y in loader:
        optimizer.zero_grad()
        loss = model(x, y)
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
"""
TWICE = "        scaler.step(optimizer)\n        scaler.update()\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("        scaler.update()\n", ""),
        ("            scaler.unscale_(optimizer)\n", "            pass\n"),
        (
            "        if clip:\n            scaler.unscale_(optimizer)\n",
            "        scaler.unscale_(optimizer)\n",
        ),
        ("scaler.step(optimizer)", "optimizer.step()"),
    ],
)
def test_what_is_moved_or_was_missing_is_right(old: str, new: str) -> None:
    assert miscounted(STEP, STEP.replace(old, new) if old else STEP, "train.py") is None
    assert miscounted(STEP.replace(old, new) if old else STEP, STEP, "train.py") is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (TWICE, TWICE + TWICE, "train would step more often"),
        ("scaler.update()\n", "scaler.update()\n        scaler.update()\n", "update more often"),
        (
            "        scaler.scale(loss).backward()\n",
            "        scaler.scale(loss).backward()\n        loss.backward()\n",
            "go backward as often no more",
        ),
        (
            "            scaler.unscale_(optimizer)\n",
            "            scaler.unscale_(optimizer)\n        scaler.unscale_(optimizer)\n",
            "unscale more often",
        ),
        ("        scaler.scale(loss).backward()\n", "", "go backward as often no more"),
    ],
)
def test_what_is_done_more_often_is_told(old: str, new: str, said: str) -> None:
    assert said in (miscounted(STEP, STEP.replace(old, new), "train.py") or "")


def test_a_function_of_too_many_paths_is_not_judged() -> None:
    arms = "".join(
        f"    if a[{n}]:\n        {'loss.backward()' if n % 2 else 'o.step()'}\n" for n in range(60)
    )
    text = "import torch\n\n\ndef f(a, loss, o):\n" + arms
    assert miscounted(text, text + "    o.step()\n" * 3, "train.py") is None
