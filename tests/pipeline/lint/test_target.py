"""The oldest torch, by the project's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.torch_floor import oldest, target_for


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("torch>=1.8,<2\n", (1, 8)),
        ("torch==1.13.1+cu117\n", (1, 13)),
        ("torchvision>=0.8\ntorch\n", None),
        ('dependencies = ["torch>=2.1", "x"]', (2, 1)),
        ('torch = "^2.0"', (2, 0)),
        ('torch = "2.1.0"', (2, 1)),
        ('torch = { version = ">=2.2", extras = [] }', (2, 2)),
        ("  - pytorch=1.12=py39", (1, 12)),
        ("  - pytorch::pytorch=2.0", (2, 0)),
        ("# torch>=1.2\ntorch<2.3", (2, 2)),
        ("torch ~= 2.0", (2, 0)),
        ("pytorch-lightning==1.2.3", None),
        ("segment-torch==1.0", None),
        ("torch!=2.0,>=1.9", (1, 9)),
        ("torch>=2", (2, 0)),
        ("torch==1.*", (1, 0)),
        ("torch<=2.0.1", (2, 0)),
        ("torch<1.13.1", (1, 13)),
        ("torch<2.0.0", (1, 13)),
        ("torch<2,!=1.12.0", (1, 13)),
        ("torch>=0.0", None),
        ("torch>=0,<2", (1, 13)),
        ("torch>=0.1.12", (0, 1)),
        ("torch<3", None),
        ("torch!=2.0", None),
        ("  - pytorch 1.11.*", (1, 11)),
        ("uses torch 1.11", None),
        ("torch @ https://example/cu117/torch-1.13.1%2Bcu117-cp310.whl", (1, 13)),
        ("https://example/fast-torch-1.13.1-cp310.whl", None),
        ('[tool.poetry.dependencies.torch]\nextras = []\nversion = "^1.12"', (1, 12)),
        ('[tool.poetry.dependencies.torch]\nextras = []\n[tool.x]\nversion = "1.12"', None),
        ('torch = [\n  {version = "2.1", platform = "a"},\n  {version = "1.13"},\n]', (1, 13)),
        ("torch[opt]>=2.0", (2, 0)),
        ("install_requires=['torch>=1.4', 'numpy']", (1, 4)),
        ("--find-links https://download.example/whl/torch_stable.html\ntorch==1.7.1", (1, 7)),
        ("torch >= 1.10 ; python_version < '3.8'", (1, 10)),
        ("", None),
    ],
)
def test_oldest(text: str, version: tuple[int, int] | None) -> None:
    assert oldest(text) == version


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["torch>=2.1"]\n')
    inner = tmp_path / "examples" / "gan"
    inner.mkdir(parents=True)
    (inner / "requirements.txt").write_text("torch>=1.9\n")
    assert target_for(inner, tmp_path) == (1, 9)
    assert target_for(tmp_path / "examples", tmp_path) == (2, 1)


def test_a_repository_is_a_border(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.9\n")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    assert target_for(tmp_path / "project", tmp_path) is None


@pytest.mark.parametrize(
    "name",
    [
        "setup.cfg",
        "setup.py",
        "requirements-dev.txt",
        "environment.yml",
        "env.yml",
        "constraints.txt",
        "Pipfile",
        "pixi.toml",
        "requirements/base.txt",
        "requirements/pytorch/base.txt",
    ],
)
def test_files(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("torch>=1.12\n")
    assert target_for(tmp_path, tmp_path) == (1, 12)


def test_older_than_mixed_precision(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.2\n")
    assert target_for(tmp_path, tmp_path) == (1, 2)


def test_the_lowest_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.13.1\n")
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch>=1.4'])\n")
    assert target_for(tmp_path, tmp_path) == (1, 4)


def test_what_setup_checks_counts_where_nothing_is_required(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text('assert ok, "Requires PyTorch >= 1.3"\n')
    assert target_for(tmp_path, tmp_path) == (1, 3)


def test_what_is_required_comes_before_what_setup_checks(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text('assert ok, "Requires PyTorch >= 1.3"\n')
    (tmp_path / "requirements.txt").write_text("torch>=1.7\n")
    assert target_for(tmp_path, tmp_path) == (1, 7)


def test_a_text_of_another_name_whose_lines_are_all_requirements(tmp_path: Path) -> None:
    text = "# the packages\n--index-url https://example.org\ntorch==1.8.0\nnumpy\nlpips[all]>=0.1; python_version > '3'\n"
    (tmp_path / "packages.txt").write_text(text)
    assert target_for(tmp_path, tmp_path) == (1, 8)


def test_other_texts_that_name_a_version_ask_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Tried with\ntorch==1.8.0\nand it worked there.\n")
    assert target_for(tmp_path, tmp_path) is None
