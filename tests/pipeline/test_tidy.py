"""What a task leaves is freed before the next one, not when memory is full of such remains."""

from __future__ import annotations

import gc
import weakref

import pytest

from amp_migrate.pipeline.workers import each


class Knot:
    """Holds itself, as a model of a program does."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize(("tasks", "left"), [(12, 0), (3, 3)])
def test_circles_are_freed_task_by_task_where_there_are_many(tasks: int, left: int) -> None:
    knots: list[weakref.ref[Knot]] = []

    def tie(number: int) -> int:
        knots.append(weakref.ref(Knot()))
        return number

    was_on = gc.isenabled()
    gc.disable()
    try:
        assert [index for index, _ in each(tie, range(tasks), 0)] == list(range(tasks))
        assert sum(knot() is not None for knot in knots) == left
    finally:
        if was_on:
            gc.enable()
