"""Which lines are the same, in short texts and in those that repeat themselves."""

from __future__ import annotations

from difflib import SequenceMatcher

from amp_migrate.project.line_diff import opcodes


def test_short_texts_are_compared_as_difflib_does() -> None:
    old, new = list("abcabcabc"), list("abxcabcyabc")
    assert opcodes(old, new) == SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def test_lines_that_are_repeated_are_still_equal() -> None:
    rows = ["1,"] * 2_000
    old = ["import torch", "data = [", *rows, "]", "loss.backward()", "step()"]
    new = ["import torch", "scaler", "data = [", *rows, "]", "scaler.scale(loss)", "step()"]
    assert opcodes(old, new) == [
        ("equal", 0, 1, 0, 1),
        ("insert", 1, 1, 1, 2),
        ("equal", 1, 2_003, 2, 2_004),
        ("replace", 2_003, 2_004, 2_004, 2_005),
        ("equal", 2_004, 2_005, 2_005, 2_006),
    ]
