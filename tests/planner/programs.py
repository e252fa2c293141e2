"""Small programs: a script around one loop body, and what the migrator makes of that body."""

from __future__ import annotations

import textwrap
from typing import Any

from amp_migrate.config import Settings
from amp_migrate.outcome import FileOutcome
from amp_migrate.pipeline.migrate import migrate_text

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 8).to(device)
other = nn.Linear(8, 8).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
SECOND = "second = torch.optim.SGD(other.parameters(), lr=0.1)\n"
SCALER = 'scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")\n'
LOOP = (
    "for index, (x, y) in enumerate(loader):\n    x, y = x.to(device), y.to(device)\n    "
    "model.zero_grad()\n"
)
WITH = 'with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):'


def text(source: str) -> str:
    """A program of the test, without its indentation; `WITH:` is the context of a float16 region."""
    return textwrap.dedent(source).lstrip("\n").replace("WITH:", WITH)


def script(body: str, *, before: str = "") -> str:
    """A script that trains: `before` stands after the first optimizer, `body` in the loop."""
    return HEAD + before + LOOP + textwrap.indent(text(body), "    ")


def migrate(source: str, **options: Any) -> FileOutcome:
    """The outcome of a program."""
    return migrate_text(source, "program.py", Settings(**options))


def output(source: str, **options: Any) -> str:
    """The new text of a program that is migrated."""
    outcome = migrate(source, **options)
    assert outcome.error is None
    assert outcome.output is not None, outcome.loops
    return outcome.output


def body(source: str, *, before: str = "", **options: Any) -> str:
    """The new text of a loop body."""
    new = output(script(source, before=before), **options)
    return textwrap.dedent(new.partition(LOOP)[2])


def verdicts(source: str, **options: Any) -> list[tuple[str, str | None]]:
    """Status and reason of each loop of a program that stays as it is."""
    outcome = migrate(source, **options)
    assert outcome.output is None
    return [(loop.status, loop.reason) for loop in outcome.loops]


def verdict(source: str, *, before: str = "", **options: Any) -> tuple[str, str | None]:
    """The same for the one loop of a script."""
    (only,) = verdicts(script(source, before=before), **options)
    return only
