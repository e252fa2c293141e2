"""Which files an import may mean, from the place of the file that imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.project.import_paths import candidates, in_subfolders, starts_used


@pytest.mark.parametrize(
    ("folder", "found"),
    [("cloud-master", True), ("owner+cloud", True), ("clouds", False), ("other", False)],
)
def test_a_folder_that_an_archive_calls_something_more(
    tmp_path: Path, folder: str, found: bool
) -> None:
    root = tmp_path / folder
    (root / "models").mkdir(parents=True)
    (root / "models" / "net.py").touch()
    files = dict(candidates(str(root / "train.py"), "cloud.models.net.Net"))
    is_there = str(root.resolve() / "models" / "net.py") in files
    assert is_there is found


def test_a_file_is_not_what_it_imports_itself(tmp_path: Path) -> None:
    root = tmp_path / "cloud-master"
    root.mkdir()
    (root / "train.py").touch()
    files = dict(candidates(str(root / "train.py"), "cloud.train.Net"))
    assert str(root.resolve() / "train.py") not in files


def test_the_folders_that_imports_start_in(tmp_path: Path) -> None:
    inner = tmp_path / "lib" / "training"
    for folder in (inner, tmp_path / "lib" / "utils", tmp_path / "lib" / "json"):
        folder.mkdir(parents=True)
        (folder / "one.py").touch()
    here = str(inner / "train.py")
    assert starts_used(here, ["utils.one.Net", "torch"]) == [inner, tmp_path / "lib"]
    assert starts_used(here, ["json.one", "torch.nn"]) == [inner]


@pytest.mark.parametrize(
    ("mark", "place", "found"),
    [("", "", True), ("", "tools", False), (".git", "", True), (".git", "tools", True)],
)
def test_a_folder_that_the_search_path_names(
    tmp_path: Path, mark: str, place: str, found: bool
) -> None:
    for folder in ("lib", "tools", mark):
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "lib" / "products.py").touch()
    there = in_subfolders(str(tmp_path / place / "train.py"), "products.product")
    assert (str(tmp_path / "lib" / "products.py") in dict(there)) is found


@pytest.mark.parametrize(
    ("sign", "place", "found"),
    [
        ("LICENSE", "", True),
        ("README.md", "", True),
        ("NOTES.md", "", False),
        ("LICENSE", "tools", False),
    ],
)
def test_an_archive_shows_its_root(tmp_path: Path, sign: str, place: str, found: bool) -> None:
    for folder in ("lib", "tools"):
        (tmp_path / folder).mkdir()
    (tmp_path / "lib" / "products.py").touch()
    (tmp_path / place / sign).touch()
    there = in_subfolders(str(tmp_path / "tools" / "train.py"), "products.product")
    assert (str(tmp_path / "lib" / "products.py") in dict(there)) is found


def test_two_folders_that_hold_a_name_are_not_guessed(tmp_path: Path) -> None:
    for folder in ("lib", "old"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "products.py").touch()
    assert in_subfolders(str(tmp_path / "train.py"), "products.product") == []
