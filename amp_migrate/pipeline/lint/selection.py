"""Which rules are on: defaults, `select`, `extend-select`, `ignore`, per-file ignores, the
project's oldest torch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate.config import Settings
from amp_migrate.project import gitignore

if TYPE_CHECKING:
    from amp_migrate.checks import Check

ALL = "ALL"


def selected(settings: Settings, path: str) -> tuple[Check, ...]:
    """The checks to run on `path`, which is relative to the folder of the settings file."""
    from amp_migrate.checks import all_checks

    on = _selected(settings.select, settings.extend_select)
    off = _names(
        (*settings.ignore, *_ignored_here(settings.per_file_ignores, path))
    )
    if is_test(path):
        off |= _not_for_tests() - _names(
            (*settings.select, *settings.extend_select)
        )
    return tuple(
        check
        for check in all_checks()
        if check.rule.name in on
        and check.rule.name not in off
        and check.rule.applies(settings.target_torch)
    )


def is_test(path: str) -> bool:
    """Whether a file is a test, as pytest and unittest find them."""
    *folders, name = Path(path).parts or ("",)
    stem = name.partition(".")[0]
    named = (
        stem.startswith("test_") or stem.endswith("_test") or stem == "conftest"
    )
    return named or not {"tests", "test"}.isdisjoint(folders)


@functools.cache
def _not_for_tests() -> frozenset[str]:
    from amp_migrate.checks import all_checks

    return frozenset(
        check.rule.name for check in all_checks() if check.rule.not_for_tests
    )


@functools.cache
def _selected(
    select: tuple[str, ...], extend: tuple[str, ...]
) -> frozenset[str]:
    from amp_migrate.checks import all_checks

    default = frozenset(
        check.rule.name for check in all_checks() if check.rule.default
    )
    # A file that cannot be read is never passed over in silence, unless that is asked for.
    return (_names(select) if select else default) | _names(extend) | {"syntax"}


@functools.cache
def _names(words: tuple[str, ...]) -> frozenset[str]:
    """The rules that `words` mean; unknown ones mean none."""
    from amp_migrate.checks import all_checks

    names = frozenset(check.rule.name for check in all_checks())
    if ALL in words:
        return names
    wanted = {word.lower() for word in words}
    return frozenset(name for name in names if name.lower() in wanted)


def unknown(words: Iterable[str]) -> list[str]:
    """Those of `words` that are no rule."""
    return [word for word in words if not _names((word,))]


def _ignored_here(
    patterns: tuple[tuple[str, tuple[str, ...]], ...], path: str
) -> tuple[str, ...]:
    return tuple(
        name
        for pattern, names in patterns
        if _matches(pattern, path)
        for name in names
    )


def _matches(pattern: str, path: str) -> bool:
    # The base is only a name here: both are relative to the folder of the settings file.
    read = gitignore.one_pattern(Path(), pattern)
    return read is not None and read.covers(Path(path), False)
