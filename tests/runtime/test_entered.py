"""Lines that a run has not entered are named as the user's file counts them."""

from __future__ import annotations

from amp_migrate.runtime.endings import not_verified
from amp_migrate.runtime.entered import Marks
from amp_migrate.runtime.import_hook import compile_rewritten
from amp_migrate.runtime.trace import Trace

BEFORE = '''\
"""A module."""
from __future__ import annotations


def step(x):
    """Text."""
    if x > 1:
        return x
    for i in range(0):
        print(i)
    y = x
    return y


def other():
    pass


step(0)
'''


def missed(before: str, after: str) -> list[tuple[str, int, int, bool]]:
    marks = Marks()
    exec(compile_rewritten(before, after, "train.py", None, marks), {})
    return marks.missed()


def test_blocks_that_did_not_run_are_named_once() -> None:
    assert missed(BEFORE, BEFORE) == [
        ("train.py", 16, 16, False),
        ("train.py", 8, 8, False),
        ("train.py", 10, 10, False),
    ]


def test_what_comes_after_a_loop_that_was_left_is_a_stretch_of_its_own() -> None:
    text = "def f():\n    while True:\n        return 1\n    return 2\n\nf()\n"
    assert missed(text, text) == [("train.py", 4, 4, False)]


def test_changed_lines_are_told_first() -> None:
    after = BEFORE.replace("        print(i)\n", "        with open(i):\n            print(i)\n")
    found = missed(BEFORE, after)
    assert [row for row in found if row[3]] == [("train.py", 10, 10, True)]
    notes = list(not_verified(Trace(not_entered=found)))
    assert notes == [
        "not verified: lines 10 of train.py, changed, and not entered with AMP on",
        "not verified: lines 8, 16 of train.py, not entered with AMP on",
    ]


def test_what_workers_that_load_data_enter_is_not_known() -> None:
    rows = [("train.py", 3, 5, False), ("train.py", 7, 7, True)]
    notes = list(not_verified(Trace(not_entered=rows, workers=True)))
    assert [note.endswith("these are not watched)") for note in notes] == [False, True]


def test_everything_that_ran_is_not_told() -> None:
    text = "x = 1\nif x:\n    x = 2\n"
    assert missed(text, text) == []
