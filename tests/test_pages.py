"""Finding and reading pages; what the pages say is tested in mdspec/."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from amp_migrate.report import pages

if TYPE_CHECKING:
    from pathlib import Path

RULE = """# a-rule

It does one
thing.

**Severity** warning · **Default** off · **Fix** unsafe

## What it does
"""


def test_facts_of_a_rule() -> None:
    page = pages.parse(RULE)
    assert (page.name, page.summary) == ("a-rule", "It does one thing.")
    assert (page.severity, page.default, page.fix, page.reason) == (
        "warning",
        False,
        "unsafe",
        None,
    )
    assert page.is_rule
    assert page.text == RULE


def test_facts_of_a_reason() -> None:
    page = pages.parse(
        RULE.replace(
            "**Severity** warning · **Default** off · **Fix** unsafe", "**Reason** refused"
        )
    )
    assert (page.severity, page.default, page.fix, page.reason) == (None, None, None, "refused")
    assert not page.is_rule


@pytest.mark.parametrize(
    "text",
    ["", "no heading\n\nx\n\n**Reason** refused\n\n## A\n", "# a\n\nx\n\nno facts\n\n## A\n"],
)
def test_what_is_no_page(text: str) -> None:
    with pytest.raises(ValueError, match=r"page|facts"):
        pages.parse(text)


def test_every_page_is_found_by_its_name() -> None:
    found = pages.all_pages()
    assert len(found) > 20
    for page in found:
        assert pages.find(page.name) == page


def test_names_are_forgiving() -> None:
    assert pages.find("Syntax").name == "syntax"


def test_unknown_name() -> None:
    with pytest.raises(KeyError):
        pages.find("no-such-page")
    assert "double-backward" in pages.suggestions("doubel-backward")


def test_rules_and_reasons_share_only_syntax() -> None:
    both = [page.name for page in pages.rule_pages() if page.reason is not None]
    assert both == ["syntax"]


def test_packaged_pages_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a-rule.md").write_text(RULE, encoding="utf-8")
    monkeypatch.setattr(pages, "__file__", str(tmp_path / "report" / "pages.py"))
    assert [page.name for page in pages.all_pages()] == ["a-rule"]
