"""NO_COLOR and FORCE_COLOR hold for every command; without them, only terminals get colours."""

from __future__ import annotations

import pytest

from tests.cli import stub
from tests.cli.conftest import Run

OLD = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
COMMANDS = [
    ("--check", "loop.py"),
    ("--diff", "loop.py"),
    ("lint", "old.py"),
    ("lint", "--output-format", "concise", "old.py"),
    ("lint", "--diff", "old.py"),
    ("lint", "--statistics", "old.py"),
    ("explain",),
    ("explain", "already-amp"),
]


@pytest.fixture(autouse=True)
def _files(write: object) -> None:
    write("loop.py", stub.LOOP)  # type: ignore[operator]
    write("old.py", OLD)  # type: ignore[operator]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_force_color_colours_a_pipe(
    command: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    ran = run(*command)
    assert "\x1b[" in ran.text + ran.err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("force", ["", "1"], ids=["plain", "both"])
def test_no_color_wins(
    command: tuple[str, ...], force: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", force)
    ran = run(*command)
    assert "\x1b[3" not in ran.text + ran.err  # no colour; bold may stay


def test_a_terminal_decides_where_nothing_is_said(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "")
    assert "\x1b" not in run("lint", "old.py").text
