"""The analysis of paths costs what the size of a file allows, whatever the paths through it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amp_migrate.config import Settings
from amp_migrate.model.program import Program
from amp_migrate.pipeline.lint.engine import lint
from amp_migrate.protocol.mistakes import Analysis, Answer
from amp_migrate.rewrite.proof.protocol import protocol_mistakes

from . import programs


def explored(text: str) -> tuple[Answer, int]:
    """What the analysis says of a program, and the work that it cost."""
    program = Program(text, "train.py")
    analysis = Analysis(program)
    before = analysis.explorer.budget.left
    answer = analysis.run()
    return answer, before - analysis.explorer.budget.left


@pytest.mark.parametrize(
    ("make", "size"),
    [(programs.nested, 4), (programs.chain, 40), (programs.loops, 5)],
    ids=["nested", "chain", "loops"],
)
def test_twice_the_size_is_twice_the_work(make: Callable[[int], str], size: int) -> None:
    (small, cost), (large, more) = explored(make(size)), explored(make(2 * size))
    assert (small.complete, large.complete) == (True, True)
    assert more <= 2.5 * cost


@pytest.mark.parametrize(
    ("make", "size"),
    [(programs.recursive, 16), (programs.flags, 150), (programs.chain, 300)],
    ids=["recursive", "flags", "chain"],
)
def test_no_file_costs_more_than_its_size_allows(make: Callable[[int], str], size: int) -> None:
    text = make(size)
    assert explored(text)[1] <= 20_100 + 20 * text.count("\n")


def test_a_mistake_under_many_flags_is_found() -> None:
    answer, _ = explored(programs.flags(30))
    assert {mistake.rule for mistake in answer.mistakes} == {"clip-without-unscale"}


def test_what_was_not_followed_is_noted() -> None:
    linted = lint(programs.recursive(16), "train.py", Settings())
    assert "too many paths" in linted.notes[0]
    assert lint(programs.nested(8), "train.py", Settings()).notes == ()


def test_what_was_not_followed_is_not_proved() -> None:
    assert ("too-many-paths", "") in protocol_mistakes(programs.recursive(16))
    assert protocol_mistakes(programs.nested(8)) == []
