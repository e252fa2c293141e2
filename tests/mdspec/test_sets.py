"""Check, page and changelog name the same rules."""

from __future__ import annotations

import re
from pathlib import Path

import amp_migrate
from amp_migrate.report import pages

PACKAGE = Path(amp_migrate.__file__).parent
ENGINE = {"syntax", "unused_ignore"}
"""Reported by the engine itself, which alone sees files that do not parse and comments that were
not needed.
"""


def _module(rule: str) -> str:
    return re.sub(r"\W+", "_", rule).lower()


def test_every_check_has_its_page() -> None:
    checks = {path.stem for path in (PACKAGE / "checks").glob("[!_]*.py")}
    assert checks - ENGINE == {_module(page.name) for page in pages.rule_pages()} - ENGINE


def test_the_changelog_names_every_rule() -> None:
    text = (PACKAGE.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    assert [page.name for page in pages.rule_pages() if f"`{page.name}`" not in text] == []
