"""Lint: from a module's text to its findings, and from findings to a mended text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amp_migrate.checks._finding import Finding
    from amp_migrate.config import Settings

__all__ = ["fix_text", "lint_text", "new_errors"]

# The functions import what they need: rules import `lint.finding`, and the engine imports the
# rules.


def lint_text(text: str, path: str, settings: Settings) -> list[Finding]:
    """The findings in one module, in source order; `path` is what they are told with.

    `text` has no byte order mark and its own line ends. Raises RuntimeError where a rule itself
    fails.
    """
    from amp_migrate.pipeline.lint.engine import lint

    linted = lint(text, path, settings)
    if linted.crashes:
        crash = linted.crashes[0]
        raise RuntimeError(
            f"{crash.path}: the rule {crash.rule} failed\n{crash.trace}"
        )
    return list(linted.findings)


def fix_text(
    text: str, path: str, settings: Settings, unsafe: bool = False
) -> str:
    """`text` with its safe fixes applied until none is left; with `unsafe`, the other fixes as
    well.
    """
    from amp_migrate.pipeline.lint.fix import fix
    from amp_migrate.pipeline.lint.migration import by_migration

    return fix(text, path, settings, unsafe, migrate=by_migration()).text


def new_errors(
    original: str, output: str, path: str, settings: Settings
) -> list[Finding]:
    """Findings of severity error in `output` that `original` lacks: what a rewrite must never bring
    in.

    Only the rules that are on by default count, whatever `settings` selects, and ignore comments do
    not.
    """
    from amp_migrate.pipeline.new_findings import brought_in

    return brought_in(original, output, path, settings)
