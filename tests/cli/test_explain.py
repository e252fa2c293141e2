"""`amp-migrate explain`, from a checkout and from a wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from amp_migrate.report import pages
from tests.cli.conftest import Run


def test_prints_the_page(run: Run) -> None:
    name = pages.all_pages()[0].name
    ran = run("explain", name)
    assert ran.code == 0
    assert name in ran.text
    assert " ".join(pages.find(name).summary.split()[:3]) in ran.text
    assert max(map(len, ran.text.splitlines())) <= 100


def test_lists_all_pages_by_topic(run: Run) -> None:
    ran = run("explain")
    assert ran.code == 0
    lines = [line for line in ran.text.splitlines() if line.startswith("  ")]
    assert sorted(line.split()[0] for line in lines) == [page.name for page in pages.all_pages()]
    titles = [line for line in ran.text.splitlines() if line and not line.startswith(" ")]
    assert titles == [*pages.TOPICS.values(), *pages.REASONS.values()]
    for line in lines:
        assert line.endswith(pages.find(line.split()[0]).summary)


def test_a_pipe_gets_no_blanks_at_the_ends_of_lines(run: Run) -> None:
    text = run("explain", "step-with-closure").text
    assert text == "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def test_unknown_name(run: Run) -> None:
    ran = run("explain", "step-with-closures")
    assert ran.code == 2
    assert "Did you mean step-with-closure" in ran.err
    ran = run("explain", "zzzzzz")
    assert ran.code == 2
    assert "lists all pages" in ran.err


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built by the backend alone."""
    root = Path(__file__).parent.parent.parent
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import hatchling.build as b; print(b.build_wheel({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    return folder / done.stdout.split()[-1]


def test_the_wheel_carries_the_pages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packaged = {name for name in names if name.startswith("amp_migrate/rules/")}
    assert packaged == {f"amp_migrate/rules/{path.name}" for path in pages.folder().glob("*.md")}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"amp_migrate"}
    assert "amp_migrate/cli/migrate.py" in names


def test_explain_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from amp_migrate.cli import "
        "main; sys.exit(main())"
    )
    command = [sys.executable, "-c", code, "explain", "step-with-closure"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "step-with-closure" in done.stdout
