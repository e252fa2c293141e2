"""Ignore comments: where they count, and when they are reported."""

from __future__ import annotations

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.lint import fix_text, lint_text

USE = "torch.cuda.amp.GradScaler()"
RULE = "deprecated-cuda-amp"
IGNORE = f"# amp-migrate: ignore[{RULE}]"


def rules(text: str, settings: Settings | None = None) -> list[tuple[str, int]]:
    return [
        (finding.rule, finding.line)
        for finding in lint_text(text, "train.py", settings or Settings())
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"import torch\nscaler = {USE}  {IGNORE}\n",
        f"import torch\nscaler = {USE}  {IGNORE} wanted, see #12\n",
        f"import torch\nscaler = {USE}  # type: ignore  {IGNORE}\n",
        f"import torch\n{IGNORE}\nscaler = {USE}\n",
        f"import torch\n{IGNORE}\n# and why\nscaler = {USE}\n",
        f"import torch\nscaler = {USE}  # amp-migrate: ignore[{RULE}, unused-ignore]\n",
        f"import torch\nscaler = torch.cuda.amp.GradScaler(\n    enabled=True,\n)  {IGNORE}\n",
        f"{IGNORE}\nimport torch\n\nscaler = {USE}\n",
        (
            f'#!/usr/bin/env python\n"""A docstring."""\n\n{IGNORE} all of it\n\nimport '
            f"torch\n\nscaler = {USE}\nother = {USE}\n"
        ),
        f"import torch\r\nscaler = {USE}  {IGNORE}\r\n",
        f"#amp-migrate:ignore[{RULE}]\nimport torch\nscaler = {USE}\n",
    ],
)
def test_suppressed(text: str) -> None:
    assert rules(text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"import torch\nx = 1  {IGNORE}\nscaler = {USE}\n", 3),
        (f"import torch\n{IGNORE}\n\nscaler = {USE}\n", 4),
        (f"import torch\nscaler = {USE}\n{IGNORE}\n", 2),
        (f'import torch\nscaler = {USE}, "{IGNORE}"\n', 2),
        (f"import torch\nscaler = {USE}  # amp-migrate: ignore[syntax]\n", 2),
    ],
)
def test_not_suppressed(text: str, line: int) -> None:
    assert (RULE, line) in rules(text)


def test_what_is_not_selected_is_left_alone() -> None:
    text = f"import torch\nx = 1  {IGNORE}\n"
    assert rules(text) == [("unused-ignore", 2)]
    assert rules(text, Settings(ignore=(RULE,))) == []
    assert rules(text, Settings(target_torch=(2, 0))) == []
    assert rules(text, Settings(ignore=("unused-ignore",))) == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (f"x = 1  {IGNORE} reason\n", "x = 1\n", "`deprecated-cuda-amp` reports nothing here"),
        (f"x = 1\n    {IGNORE}\ny = 2\n", "x = 1\ny = 2\n", "reports nothing here"),
        (f"x = 1  {IGNORE} why  # noqa: E501\n", "x = 1  # noqa: E501\n", "reports nothing here"),
        (
            "x = 1  # amp-migrate: ignore[no-rule, none]\n",
            "x = 1\n",
            "`no-rule`, `none` are no rules",
        ),
        ("x = 1  # amp-migrate: ignore\n", "x = 1\n", "names no rule"),
        (
            f"import torch\ns = {USE}  # amp-migrate: ignore[{RULE}, no-rule] why\n",
            f"import torch\ns = {USE}  # amp-migrate: ignore[{RULE}] why\n",
            "`no-rule` is no rule",
        ),
        (f'x = "äö"  {IGNORE}\r\n', 'x = "äö"\r\n', "reports nothing here"),
    ],
)
def test_unused(before: str, after: str, message: str) -> None:
    (finding,) = lint_text(before, "train.py", Settings())
    assert finding.rule == "unused-ignore"
    assert message in finding.message
    assert fix_text(before, "train.py", Settings()) == after
