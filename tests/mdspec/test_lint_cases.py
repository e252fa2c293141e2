"""Every linted block of pages and specs: reported where it says so, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint import lint_text
from amp_migrate.report import pages

from .cases import Block, blocks, settings

SPEC = Path(__file__).parent.parent / "spec"
NEAR_MISSES = blocks(SPEC / "near-misses.md")
CASES = [
    block
    for page in pages.rule_pages()
    for path in (pages.folder() / f"{page.name}.md", SPEC / f"{page.name}.md")
    if path.exists()
    for block in blocks(path)
    if block.kind in {"lint", "broken"}
]
FIXED = [
    block
    for page in pages.rule_pages()
    for block in blocks(pages.folder() / f"{page.name}.md")
    if block.kind == "fixed"
]


@pytest.mark.parametrize("block", CASES, ids=lambda block: block.id)
def test_reported_where_marked(block: Block) -> None:
    found = lint_text(block.source, "train.py", settings(block, block.file))
    assert sorted((finding.rule, finding.line) for finding in found) == [
        (block.file, line) for line in block.errors
    ]


@pytest.mark.parametrize("block", NEAR_MISSES, ids=lambda block: block.id)
def test_near_miss_is_silent(block: Block) -> None:
    assert lint_text(block.source, "train.py", settings(block, None)) == []


@pytest.mark.parametrize("block", FIXED, ids=lambda block: block.id)
def test_fixed_is_clean(block: Block) -> None:
    assert (
        lint_text(
            block.source, "train.py", Settings(target_torch=settings(block, None).target_torch)
        )
        == []
    )
