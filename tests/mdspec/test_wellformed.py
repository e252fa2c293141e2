"""Pages and specs have the form that people and tests rely on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from amp_migrate.report import pages

from .cases import blocks, fix_cases

SPEC = Path(__file__).parent.parent / "spec"
PAGES = pages.all_pages()
RULES = pages.rule_pages()
SPECS = sorted(SPEC.glob("*.md"))
FILES = [*sorted(pages.folder().glob("*.md")), *SPECS]

RULE_SECTIONS = [
    "What it does",
    "Why is this bad?",
    "Example",
    "Use instead",
    "Fix safety",
    "What it does not see",
    "References",
]
REFUSED_SECTIONS = [
    "What is seen",
    "Why is it refused?",
    "Example",
    "What to do instead",
    "References",
]
SKIPPED_SECTIONS = [
    "What is seen",
    "Why is it skipped?",
    "Example",
    "What to do instead",
    "References",
]
SECTIONS = {
    None: RULE_SECTIONS,
    "refused": REFUSED_SECTIONS,
    "failed": REFUSED_SECTIONS,
    "skipped": SKIPPED_SECTIONS,
}
NO_SINGLE_FILE_SHOWS_IT = {
    "callers-in-other-modules",
    "notebook",
    "guard-failed",
    "too-many-paths",
    "torch-too-old",
}

by_name = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
by_rule = pytest.mark.parametrize("page", RULES, ids=lambda page: page.name)
by_reason = pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.reason in {"refused", "skipped"}],
    ids=lambda page: page.name,
)
by_error = pytest.mark.parametrize(
    "page",
    [page for page in RULES if page.severity == "error" and page.name != "syntax"],
    ids=lambda page: page.name,
)
by_file = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")


@by_name
def test_name_and_facts(page: pages.Page) -> None:
    assert (pages.folder() / f"{page.name}.md").is_file()
    assert page.summary.endswith(".")
    assert len(page.summary) < 200
    assert page.reason in SECTIONS
    if page.is_rule:
        assert page.severity in {"error", "warning", "info"}
        assert page.default is not None
        assert page.fix in {"safe", "unsafe", "none"}


@by_name
def test_sections(page: pages.Page) -> None:
    prose = re.sub(r"(?ms)^```.*?^```$", "", page.text)
    assert re.findall(r"(?m)^## (.+)$", prose) == SECTIONS[page.reason]
    for body in re.split(r"(?m)^## .+$", page.text)[1:]:
        assert body.strip()


@by_file
def test_blocks_parse(path: Path) -> None:
    found = blocks(path)
    assert len(found) == path.read_text(encoding="utf-8").count("```python")
    for block in found:
        if block.kind == "broken":
            with pytest.raises(SyntaxError):
                ast.parse(block.source)
        else:
            ast.parse(block.source)


@by_file
def test_fences_are_closed(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n```") % 2 == 0


@by_file
def test_markers_stand_in_linted_blocks_only(path: Path) -> None:
    for block in blocks(path):
        if block.kind not in {"lint", "broken"}:
            assert not block.errors + block.oks, block.id


@by_rule
def test_a_rule_shows_a_mistake_and_a_near_miss(page: pages.Page) -> None:
    found = blocks(pages.folder() / f"{page.name}.md")
    assert any(block.errors for block in found)
    assert any(block.oks for block in found)


@by_rule
def test_a_fix_is_shown(page: pages.Page) -> None:
    cases = fix_cases(blocks(pages.folder() / f"{page.name}.md"))
    if page.fix == "none":
        assert not cases
    for case in cases:
        assert case.before.errors, case.after.id
        assert case.before.source != case.after.source, case.after.id
        assert page.fix == "safe" or case.after.unsafe, case.after.id
    assert cases or page.fix != "safe"


@by_reason
def test_a_reason_shows_a_program(page: pages.Page) -> None:
    kinds = [block.kind for block in blocks(pages.folder() / f"{page.name}.md")]
    assert (page.reason in kinds) != (page.name in NO_SINGLE_FILE_SHOWS_IT)


def test_every_rule_has_a_spec() -> None:
    assert {path.stem for path in SPECS} == {page.name for page in RULES} | {"near-misses"}


@by_rule
def test_a_spec_plants_the_mistake(page: pages.Page) -> None:
    assert any(block.errors for block in blocks(SPEC / f"{page.name}.md"))


@by_error
def test_an_error_is_planted_in_five_ways(page: pages.Page) -> None:
    found = blocks(SPEC / f"{page.name}.md")
    assert sum(bool(block.errors) for block in found) >= 5
    assert any(not block.errors for block in found) or any(block.oks for block in found)


def test_near_misses_hold_no_mistake() -> None:
    found = blocks(SPEC / "near-misses.md")
    assert len(found) >= 26
    assert not [block.id for block in found if block.errors]
