"""Every `fixed` block is what the fixer makes of the block above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.pipeline.lint import fix_text
from amp_migrate.report import pages

from .cases import FixCase, blocks, fix_cases, settings

SPEC = Path(__file__).parent.parent / "spec"
CASES = [
    case
    for page in pages.rule_pages()
    for path in (pages.folder() / f"{page.name}.md", SPEC / f"{page.name}.md")
    if path.exists()
    for case in fix_cases(blocks(path))
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.after.id)
def test_fix(case: FixCase) -> None:
    options = settings(case.before, case.before.file)
    assert (
        fix_text(case.before.source, "train.py", options, unsafe=case.after.unsafe)
        == case.after.source
    )


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.after.unsafe], ids=lambda case: case.after.id
)
def test_an_unsafe_fix_waits_to_be_asked_for(case: FixCase) -> None:
    options = settings(case.before, case.before.file)
    assert fix_text(case.before.source, "train.py", options, unsafe=False) == case.before.source


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.after.id)
def test_fixing_twice_is_fixing_once(case: FixCase) -> None:
    options = settings(case.before, case.before.file)
    assert (
        fix_text(case.after.source, "train.py", options, unsafe=case.after.unsafe)
        == case.after.source
    )
