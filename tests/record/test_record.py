"""The record's own parts, on a repository made here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.record import __main__ as command
from tests.record import outcomes, repositories
from tests.record.outcomes import OUTCOMES, changes, migrated
from tests.record.repositories import Repository, exported, manifest

PROGRAM = """
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def mirror(tmp_path: Path) -> tuple[Path, Repository]:
    """A folder with one repository of one program."""
    place = tmp_path / "some+one"
    place.mkdir()
    (place / "train.py").write_text(PROGRAM)
    git = ["git", "-c", "user.email=a@b", "-c", "user.name=a"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=place, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=place, capture_output=True, check=True)
    return tmp_path, Repository("some/one", head.stdout.decode().strip())


def test_a_repository_is_exported_at_its_commit(mirror: tuple[Path, Repository]) -> None:
    folder, repository = mirror
    (folder / "some+one" / "train.py").write_text("changed since\n")
    with exported(repository, folder) as files:
        assert files is not None
        assert (files / "train.py").read_text() == PROGRAM
    with exported(Repository("some/one", "0" * 40), folder) as files:
        assert files is None
    with exported(Repository("no/where", "0" * 40), folder) as files:
        assert files is None


def test_the_outcome_tells_loops_and_hashes_but_no_code(mirror: tuple[Path, Repository]) -> None:
    folder, repository = mirror
    with exported(repository, folder) as files:
        assert files is not None
        found = migrated(files)
    (name,) = found.files
    assert name == "train.py"
    assert found.files[name]["loops"] == ["<module> migrated"]
    assert "+    scaler.scale(loss).backward()" in found.diffs[name]
    assert "scaler" not in json.dumps(found.files)


def test_a_change_is_told_and_an_update_takes_it_over(
    mirror: tuple[Path, Repository],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    folder, repository = mirror
    monkeypatch.setattr(outcomes, "OUTCOMES", tmp_path / "record")
    monkeypatch.setattr(command, "manifest", lambda only: [repository])
    assert command.main(["check", str(folder)]) == 1
    assert "train.py: + <module> migrated" in capsys.readouterr().out
    assert command.main(["update", str(folder)]) == 0
    assert command.main(["check", str(folder)]) == 0
    assert command.main(["compare", str(folder)]) == 0


def test_changes_tell_loops_first_and_hashes_where_nothing_else_differs() -> None:
    old = {"a.py": {"status": "migrated", "loops": ["f migrated"], "diff": "1"}}
    new = {"a.py": {"status": "migrated", "loops": ["f migrated"], "diff": "2"}}
    refused = {"a.py": {"status": "refused", "loops": ["f refused already-half"]}}
    assert changes(old, old) == []
    assert changes(old, new) == ["a.py: migrated 1 -> migrated 2"]
    assert changes(old, refused) == ["a.py: - f migrated", "a.py: + f refused already-half"]


def test_the_record_and_the_manifest_name_the_same_commits() -> None:
    pinned = {one.label: one.commit for one in manifest()}
    assert len(pinned) >= 60
    assert all(len(commit) == 40 for commit in pinned.values())
    recorded = {
        file.stem: json.loads(file.read_text(encoding="utf-8"))["commit"]
        for file in OUTCOMES.glob("*.json")
    }
    assert recorded == pinned
    assert repositories.MANIFEST.is_file()
