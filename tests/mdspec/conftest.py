"""Leaves out what needs a part of the package that is not there."""

from __future__ import annotations

import importlib

NEEDS = {
    "test_lint_cases.py": ("amp_migrate.pipeline.lint", "lint_text"),
    "test_fix_cases.py": ("amp_migrate.pipeline.lint", "fix_text"),
    "test_refusals.py": ("amp_migrate.pipeline.migrate", "migrate_text"),
    "test_sets.py": ("amp_migrate.pipeline.lint", "lint_text"),
}


def _is_there(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        return False


collect_ignore = [file for file, (module, name) in NEEDS.items() if not _is_there(module, name)]
