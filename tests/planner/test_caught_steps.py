"""Errors that are caught around a step are told; those that end the loop or the run are not."""

from __future__ import annotations

import pytest

from tests.planner.programs import migrate

PROGRAM = """\
import sys

import torch

model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    try:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    {handler}
"""
AROUND = """\
import torch

model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
try:
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
except KeyboardInterrupt:
    print("stopped")
"""


def notes(source: str) -> list[str]:
    outcome = migrate(source)
    assert outcome.status == "migrated"
    return [note.message for note in outcome.notes if "is caught" in note.message]


@pytest.mark.parametrize(
    "handler",
    [
        "except Exception: pass",
        "except Exception as e:\n        print(e)\n        continue",
        (
            "except RuntimeError as e:\n        if 'out of memory' in str(e):\n"
            "            torch.cuda.empty_cache()\n        else:\n            raise"
        ),
    ],
)
def test_a_loop_that_goes_on_is_told(handler: str) -> None:
    assert len(notes(PROGRAM.format(handler=handler))) == 1


@pytest.mark.parametrize(
    "handler",
    [
        "except Exception as e:\n        print(e)\n        raise",
        "except Exception as e:\n        print(e)\n        sys.exit(1)",
        "except Exception as e:\n        print(e)\n        break",
        "finally: print('a turn')",
    ],
)
def test_one_that_ends_is_not(handler: str) -> None:
    assert notes(PROGRAM.format(handler=handler)) == []


def test_errors_outside_of_the_loop_are_not() -> None:
    assert notes(AROUND) == []
