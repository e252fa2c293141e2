"""The reader of blocks itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .cases import blocks, fix_cases, settings

if TYPE_CHECKING:
    from pathlib import Path

PAGE = """# a-rule

## Example

```python target-torch=2.0
first()
second()  # error
third()  # ok
fourth()  # error is no marker here
```

## Use instead

```python fixed unsafe
first()
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "a-rule.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_markers_are_read_and_stripped(page: Path) -> None:
    block = blocks(page)[0]
    assert (block.errors, block.oks) == ((2,), (3,))
    assert block.source == "first()\nsecond()\nthird()\nfourth()  # error is no marker here\n"


def test_place_of_a_block(page: Path) -> None:
    block = blocks(page)[0]
    assert (block.line, block.title) == (6, "Example")
    assert PAGE.splitlines()[block.line - 1] == "first()"


def test_settings(page: Path) -> None:
    block, fixed = blocks(page)
    assert settings(block, "a-rule").target_torch == (2, 0)
    assert settings(block, "a-rule").select == ("a-rule",)
    assert settings(fixed, None).target_torch is None
    assert settings(fixed, None).select == ()


def test_a_fixed_block_belongs_to_the_one_above(page: Path) -> None:
    (case,) = fix_cases(blocks(page))
    assert case.before.errors == (2,)
    assert case.after.unsafe


@pytest.mark.parametrize("words", ["fixd", "fixed refused", "colour=red"])
def test_unknown_words(page: Path, words: str) -> None:
    page.write_text(PAGE.replace("fixed unsafe", words), encoding="utf-8")
    with pytest.raises(ValueError, match=r"a-rule:14: cannot read"):
        blocks(page)


def test_a_fixed_block_needs_one_above(page: Path) -> None:
    page.write_text(PAGE.replace("python target-torch=2.0", "text"), encoding="utf-8")
    with pytest.raises(ValueError, match="nothing to fix"):
        fix_cases(blocks(page))
