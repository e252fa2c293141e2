"""The pages about rules and refusals: Markdown files that `amp-migrate explain` prints.

In a checkout they are `rules/*.md` at the top; the wheel carries the same files as package data in
`amp_migrate/rules`.

For the command line: `all_pages()` gives every page in order of name, for `explain` without an
argument (one line each, from `page.name`, `page.severity`, `page.fix` and `page.summary`).
`find(name)` gives one page, for `explain NAME`; its `text` is the whole Markdown, ready for a
renderer. `find` raises `KeyError` for an unknown name, and `suggestions(name)` gives the names that
come near.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

_SHORT, _SENTENCE = 160, 20
"""A paragraph so short is told whole; a first sentence shorter than this with the next one."""
_FACT = re.compile(r"\*\*(Severity|Default|Fix|Reason|Topic)\*\* (\w+)")
TOPICS = {
    "plain": "Loops without mixed precision",
    "autocast": "Where autocast begins and ends",
    "step": "The scaler: scale, step and update",
    "gradients": "Reading and clipping gradients",
    "accumulation": "Gradient accumulation",
    "checkpoints": "Checkpoints",
    "values": "Values that half precision spoils",
    "functions": "Custom autograd functions",
    "parallel": "Several devices, compiled and recomputed code",
    "names": "Old and wrong names",
    "files": "Files and comments",
}
"""Titles of the rules' topics, by the word on their pages."""
REASONS = {
    "refused": "Why a loop is refused",
    "skipped": "Why a loop is skipped",
}


@dataclass(frozen=True)
class Page:
    """One page. A rule has `severity`, `default` and `fix`; a reason of the migrator has `reason`;
    `syntax` has all.
    """

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
    topic: str = ""
    """Where a rule stands in the list: a key of `TOPICS`."""

    @property
    def way_out(self) -> str:
        """The first words of the section that says what to do; empty where there is none."""
        section = re.search(
            r"^## What to do.*\n\n((?:.+\n)+)", self.text, re.MULTILINE
        )
        words = " ".join(section[1].split()) if section else ""
        # The sentence before the colon speaks of the code below; what stands before it does not.
        words = re.sub(r"(?<=\.) [^.]*:$", "", words)
        if len(words) <= _SHORT:
            return re.sub(r":$", ".", words)
        ends = [found.end() for found in re.finditer(r"[.:](?= |$)", words)]
        end = next((end for end in ends if end > _SENTENCE), len(words))
        return re.sub(r":$", ".", words[:end])

    @property
    def is_rule(self) -> bool:
        """Whether lint reports it."""
        return self.severity is not None


def folder() -> Path:
    """The folder that holds the pages."""
    package = Path(__file__).parents[1]
    packaged = package / "rules"
    return packaged if packaged.is_dir() else package.parent / "rules"


def parse(text: str) -> Page:
    """The page in Markdown `text`: heading, a paragraph of summary, the line of facts, sections.
    Raises ValueError.
    """
    parts = text.split("\n\n", 3)
    if len(parts) < 4 or not parts[0].startswith("# "):
        raise ValueError(
            "a page starts with '# name', a summary and a line of facts"
        )
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
        topic=facts.get("Topic", ""),
    )


def by_topic() -> dict[str, list[Page]]:
    """Every page below the title of its topic, in the order in which a reader wants them."""
    found: dict[str, list[Page]] = {
        title: [] for title in (*TOPICS.values(), *REASONS.values())
    }
    for page in all_pages():
        title = (
            TOPICS.get(page.topic)
            if page.is_rule
            else REASONS.get(page.reason or "")
        )
        found.setdefault(title or "Other rules", []).append(page)
    return {title: pages for title, pages in found.items() if pages}


def all_pages() -> tuple[Page, ...]:
    """Every page, sorted by name."""
    return tuple(
        parse(path.read_text(encoding="utf-8"))
        for path in sorted(folder().glob("*.md"))
    )


def rule_pages() -> tuple[Page, ...]:
    """The pages of lint rules, sorted by name."""
    return tuple(page for page in all_pages() if page.is_rule)


def find(name: str) -> Page:
    """The page called `name`, whatever its case, and with `-` for a `/`. Raises KeyError where
    there is none.
    """
    wanted = name.replace("/", "-").lower()
    for path in folder().glob("*.md"):
        if path.stem.lower() == wanted:
            return parse(path.read_text(encoding="utf-8"))
    raise KeyError(name)


def suggestions(name: str) -> list[str]:
    """Names of pages that come near to `name`, the nearest first."""
    return difflib.get_close_matches(
        name, [path.stem for path in folder().glob("*.md")]
    )
