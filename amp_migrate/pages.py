"""The pages about rules and refusals: Markdown files that `amp-migrate explain` prints.

In a checkout they are `rules/*.md` at the top; the wheel carries the same files as package data in `amp_migrate/rules`.

For the command line: `all_pages()` gives every page in order of name, for `explain` without an argument (one line each,
from `page.name`, `page.severity`, `page.fix` and `page.summary`). `find(name)` gives one page, for `explain NAME`; its
`text` is the whole Markdown, ready for a renderer. `find` raises `KeyError` for an unknown name, and
`suggestions(name)` gives the names that come near.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

_FACT = re.compile(r"\*\*(Severity|Default|Fix|Reason)\*\* (\w+)")


@dataclass(frozen=True)
class Page:
    """One page. A rule has `severity`, `default` and `fix`; a reason of the migrator has `reason`; `syntax` has all."""

    name: str
    summary: str
    severity: str | None
    """`error`, `warning` or `info`."""
    default: bool | None
    """Whether the rule is on without being selected."""
    fix: str | None
    """`safe`, `unsafe` or `none`."""
    reason: str | None
    """What the migrator says of such a loop: `refused`, `skipped` or `failed`."""
    text: str

    @property
    def is_rule(self) -> bool:
        """Whether lint reports it."""
        return self.severity is not None


def folder() -> Path:
    """The folder that holds the pages."""
    packaged = Path(__file__).parent / "rules"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "rules"


def parse(text: str) -> Page:
    """The page in Markdown `text`: heading, a paragraph of summary, the line of facts, sections. Raises ValueError."""
    parts = text.split("\n\n", 3)
    if len(parts) < 4 or not parts[0].startswith("# "):
        raise ValueError("a page starts with '# name', a summary and a line of facts")
    facts = dict(_FACT.findall(parts[2]))
    if not facts:
        raise ValueError(f"no facts below the summary: {parts[2]!r}")
    default = facts.get("Default")
    return Page(
        name=parts[0][2:].strip(),
        summary=" ".join(parts[1].split()),
        severity=facts.get("Severity"),
        default=None if default is None else default == "on",
        fix=facts.get("Fix"),
        reason=facts.get("Reason"),
        text=text,
    )


def all_pages() -> tuple[Page, ...]:
    """Every page, sorted by name."""
    return tuple(parse(path.read_text(encoding="utf-8")) for path in sorted(folder().glob("*.md")))


def rule_pages() -> tuple[Page, ...]:
    """The pages of lint rules, sorted by name."""
    return tuple(page for page in all_pages() if page.is_rule)


def find(name: str) -> Page:
    """The page called `name`, whatever its case, and with `-` for a `/`. Raises KeyError where there is none."""
    wanted = name.replace("/", "-").lower()
    for path in folder().glob("*.md"):
        if path.stem.lower() == wanted:
            return parse(path.read_text(encoding="utf-8"))
    raise KeyError(name)


def suggestions(name: str) -> list[str]:
    """Names of pages that come near to `name`, the nearest first."""
    return difflib.get_close_matches(name, [path.stem for path in folder().glob("*.md")])
