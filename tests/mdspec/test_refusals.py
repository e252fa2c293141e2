"""Every program on a refusal page is refused for the reason that the page explains, and stays as
it is.
"""

from __future__ import annotations

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text
from amp_migrate.report import pages

from .cases import Block, blocks, settings

REASONS = [page for page in pages.all_pages() if page.reason]
PROGRAMS = [
    block
    for page in REASONS
    for block in blocks(pages.folder() / f"{page.name}.md")
    if block.kind in {"refused", "skipped"}
]
BROKEN = [block for block in blocks(pages.folder() / "syntax.md") if block.kind == "broken"]


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.id)
def test_reason(block: Block) -> None:
    outcome = migrate_text(block.source, "train.py", settings(block, None))
    assert [(loop.status, loop.reason) for loop in outcome.loops] == [(block.kind, block.file)]
    assert outcome.output is None


@pytest.mark.parametrize("block", BROKEN, ids=lambda block: block.id)
def test_what_does_not_parse_fails(block: Block) -> None:
    outcome = migrate_text(block.source, "train.py", Settings())
    assert outcome.status == "failed"
    assert outcome.error is not None
    assert f"train.py:{block.errors[0]}:" in outcome.error
