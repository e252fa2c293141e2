"""The migrator, run by LibCST's own tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text
from tests.rewrite.writer.spots import block

ROOT = Path(__file__).parents[3]
PLAIN = block("""
    import torch
    from torch import nn

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.MSELoss()
    for step in range(3):
        x, y = torch.randn(8, 4, device=device), torch.randn(8, 1, device=device)
        # one step
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward(); optimizer.step()
""")


def codemod(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "libcst.tool",
        "codemod",
        "-x",
        "--no-format",
        "--hide-progress",
        "-j1",
    ]
    return subprocess.run(
        [*command, "amp_migrate.codemod.AmpMigrateCommand", str(path), *options],
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def expected(text: str, settings: Settings) -> str:
    output = migrate_text(text, "program.py", settings).output
    assert output is not None
    assert "autocast" in output
    return output


@pytest.mark.parametrize(("mark", "line_end"), [("", "\n"), ("\ufeff", "\r\n")])
def test_a_program_is_rewritten_as_by_the_command_line(
    tmp_path: Path, mark: str, line_end: str
) -> None:
    text = PLAIN.replace("\n", line_end)
    path = tmp_path / "program.py"
    path.write_bytes((mark + text).encode())
    result = codemod(path)
    assert result.returncode == 0, result.stderr
    assert path.read_bytes().decode() == mark + expected(text, Settings())


def test_a_coding_cookie_is_obeyed(tmp_path: Path) -> None:
    text = "# coding: latin-1\n" + PLAIN.replace("one step", "één")
    path = tmp_path / "program.py"
    path.write_bytes(text.encode("latin-1"))
    assert codemod(path).returncode == 0
    assert path.read_bytes() == expected(text, Settings()).encode("latin-1")


def test_the_dtype_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PLAIN)
    assert codemod(path, "--dtype", "bfloat16").returncode == 0
    assert path.read_text() == expected(PLAIN, Settings(dtype="bfloat16"))


def test_a_file_without_a_loop_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import torch\n")
    result = codemod(path)
    assert result.returncode == 0
    assert "unchanged" in result.stderr
    assert path.read_text() == "import torch\n"


def test_a_refused_loop_is_reported_and_left_alone(tmp_path: Path) -> None:
    refused = (ROOT / "fixtures/refused/sam_two_pass/program.py").read_text()
    path = tmp_path / "program.py"
    path.write_text(refused)
    result = codemod(path)
    assert "two-pass-optimizer" in result.stdout + result.stderr
    assert path.read_text() == refused
