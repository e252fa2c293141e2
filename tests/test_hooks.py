"""The pre-commit hooks, tried with pre-commit in a repository of their own, and the GitHub Action."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lint.programs import NEW, OLD, PLAIN

ROOT = Path(__file__).parent.parent
HOOKS = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
needs_pre_commit = pytest.mark.skipif(
    shutil.which("git") is None or shutil.which("pre-commit", path=str(Path(sys.executable).parent)) is None,
    reason="pre-commit and git are not installed",
)


def _entries() -> dict[str, str]:
    """The command of each hook; the file is simple enough to be read line by line."""
    ids = [line.partition(": ")[2] for line in HOOKS.splitlines() if line.startswith("- id: ")]
    entries = [line.partition(": ")[2] for line in HOOKS.splitlines() if line.startswith("  entry: ")]
    return dict(zip(ids, entries, strict=True))


class Repository:
    """A git repository with one hook of ours, run by this checkout."""

    def __init__(self, folder: Path, hook: str) -> None:
        self.folder = folder
        command = shlex.join([sys.executable, "-m", "amp_migrate", *_entries()[hook].split()[1:]])
        config = "repos:\n- repo: local\n  hooks:\n"
        config += f"  - id: {hook}\n    name: {hook}\n    entry: {command}\n    language: system\n"
        config += "    types: [python]\n    require_serial: true\n"
        self.git("init", "-q")
        (folder / ".pre-commit-config.yaml").write_text(config, encoding="utf-8")

    def git(self, *args: str) -> str:
        settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        ran = subprocess.run(["git", *settings, *args], cwd=self.folder, capture_output=True, text=True, check=True)
        return ran.stdout

    def commit_hook(self) -> subprocess.CompletedProcess[str]:
        """What `git commit` runs once `pre-commit install` was called."""
        self.git("add", "-A")
        tool = Path(sys.executable).parent / "pre-commit"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PRE_COMMIT_HOME": str(self.folder.parent / "cache")}
        return subprocess.run(
            [tool, "run"], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )


def test_the_hooks_are_those_that_the_readers_know() -> None:
    assert _entries() == {"amp-migrate-lint": "amp-migrate lint --quiet", "amp-migrate": "amp-migrate migrate"}
    assert HOOKS.count("  language: python\n") == HOOKS.count("  types: [python]\n") == 2


@needs_pre_commit
def test_the_lint_hook_stops_a_commit(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    repository = Repository(folder, "amp-migrate-lint")
    (folder / "train.py").write_text(OLD)
    ran = repository.commit_hook()
    assert ran.returncode == 1
    assert "train.py:3:10: info deprecated-cuda-amp" in ran.stdout
    (folder / "train.py").write_text(NEW)
    ran = repository.commit_hook()
    assert (ran.returncode, "Passed" in ran.stdout) == (0, True)


@needs_pre_commit
def test_the_fixing_hook_rewrites(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    repository = Repository(folder, "amp-migrate")
    (folder / "train.py").write_text(PLAIN)
    ran = repository.commit_hook()
    assert ran.returncode == 1
    assert "files were modified by this hook" in ran.stdout
    assert "scaler.step(optimizer)" in (folder / "train.py").read_text()
    assert repository.commit_hook().returncode == 0


def test_the_action_uploads_sarif() -> None:
    for part in ("using: composite", "--output-format sarif", "upload-sarif@", "sarif_file: ${{ inputs.sarif-file }}"):
        assert part in ACTION
    # Inputs reach the shell through the environment only, never as text of the script.
    scripts = [block.split("\n    - ")[0] for block in ACTION.split("run: |")[1:]]
    assert len(scripts) == 2
    assert not any("${{" in script for script in scripts)


def test_the_action_s_script_keeps_the_exit_code(tmp_path: Path) -> None:
    script = ACTION.split("run: |")[2].split("\n    - ")[0]
    (tmp_path / "train.py").write_text(OLD)
    tool = tmp_path / "tool.sh"
    tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m amp_migrate "$@"\n')
    tool.chmod(0o755)
    output = tmp_path / "output"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "AMP_MIGRATE": str(tool),
        "PATHS": "train.py",
        "ARGS": "--select ALL",
        "SARIF": "out.sarif",
        "GITHUB_OUTPUT": str(output),
    }
    ran = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, output.read_text()) == (0, "exit-code=1\n")
    assert "deprecated-cuda-amp" in (tmp_path / "out.sarif").read_text()
