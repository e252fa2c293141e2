"""Rules are found, agree with their pages, and keep heavy imports out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amp_migrate.checks import Check, all_checks, module_name
from amp_migrate.config import Settings
from amp_migrate.pipeline.lint import lint_text
from amp_migrate.report import pages

PAGES = {page.name: page for page in pages.rule_pages()}
FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.rule.name)
def test_the_rule_agrees_with_its_page(check: Check) -> None:
    page = PAGES[check.rule.name]
    assert (check.rule.severity, check.rule.default) == (page.severity, page.default)


def test_modules_are_named_after_their_rules() -> None:
    folder = Path(__file__).parent.parent.parent / "amp_migrate" / "checks"
    assert {module_name(check.rule.name) for check in all_checks()} == {
        path.stem for path in folder.glob("[!_]*.py")
    }


PROGRAM = """
import sys
from amp_migrate.cli import main
code = main(["lint", "-q", sys.argv[1]])
print("\\n".join(sorted(name for name in sys.modules if name.partition(".")[0] in {"torch", "libcst", "rich", "numpy"})))
sys.exit(code)
"""


def test_lint_imports_neither_torch_nor_libcst() -> None:
    root = FIXTURES.parent
    command = [sys.executable, "-c", PROGRAM, str(FIXTURES / "imagenet_like")]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert ran.returncode == 1
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    assert "loop-without-amp" in ran.stdout
    assert [line for line in lines if line.startswith(("torch", "libcst", "rich", "numpy"))] == []


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*/after.py")), ids=lambda path: path.parent.name
)
def test_what_the_migrator_writes_is_clean(path: Path) -> None:
    case = (path.parent / "case.toml").read_text(encoding="utf-8")
    target = (2, 0) if 'target_torch = "2.0"' in case else None
    assert (
        lint_text(path.read_text(encoding="utf-8-sig"), "train.py", Settings(target_torch=target))
        == []
    )
