"""The oldest torch that a project supports, by its own files: pyproject.toml, setup.cfg,
requirements, environments.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.patterns import pattern
from amp_migrate.regular_files import read_nearby

_FILES = pattern(
    r"^(pyproject\.toml|pixi\.toml|Pipfile|setup\.(cfg|py)"
    r"|(requirements?|constraints?)[\w.-]*\.(txt|in)"
    r"|(environment|env|conda)[\w.-]*\.ya?ml)$"
)
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_REQUIREMENTS = (
    # The name as a requirement, not as a part of torchvision or of a path; conda calls it pytorch.
    pattern(
        r"""(?mi)(?:^|["'\s])(?:pytorch::?)?(?:py)?torch["']?\s*(?:\[[^\]]*\])?\s*"""
        r"""(?P<bounds>(?:[=<>!~^]|["']\s*[\^~=<>\d]|\(\s*[=<>~]).*)$"""
    ),
    # `- pytorch 1.12.1 py39`, and the wheel of a URL
    pattern(r"(?m)^\s*-\s*(?:[\w-]+::)?pytorch\s+(?P<bounds>\d\S*)"),
    pattern(r"(?<![\w-])torch-(?P<bounds>\d+\.\d+)\S*\.whl"),
    # tables of Poetry: `[tool.poetry.dependencies.torch]`, `torch = [{version = ...}, ...]`
    pattern(
        r"(?m)^\[[\w.-]+\.torch\]\s*\n(?:(?!\[).*\n)*?version\s*=\s*(?P<bounds>.+)$"
    ),
    pattern(r"(?m)^torch\s*=\s*\[(?P<bounds>[^\]]*)\]"),
)
_REQUIREMENT = pattern(
    r"-\S.*|(?:[a-z]+\+)?[a-z]+://.*|\.{0,2}/.*"
    r"|[A-Za-z0-9][\w.-]*\s*(?:\[[^\]]*\])?\s*(?:[=<>!~(@;].*)?"
)
"""A line of a file that pip installs: an option, an address, a path, or a name with its bounds."""
_LONGEST, _MOST = 32_768, 24
"""Of texts that may be lists of requirements: bytes of each, and how many of a folder are read."""
_VERSION = r"\s*[\"']?\s*v?(?P<major>\d+)(?:\.(?P<minor>\d+))?"
_LOWER = pattern(
    rf"(?:~=|(?<![!<])={{1,3}}|>=?|\^|~|(?<=[\"'])|^(?=\d)){_VERSION}"
)
_UPPER = pattern(rf"<(?P<itself>=?){_VERSION}(?:\.(?P<patch>\d+))?")
_CHECK = pattern(r"(?m)^[ \t]*(?:assert|raise)\b.*$")
_FIRST = (0, 1)
"""The first release: `torch>=0.0` says that there is torch, and no more."""
_LAST_1 = (1, 13)
"""The release before 2.0."""


def target_for(folder: Path, top: Path) -> tuple[int, int] | None:
    """The oldest torch by the nearest file that names one, from `folder` up to `top` or the
    repository's root.
    """
    found = _in(folder)
    if (
        found is not None
        or folder in (top, folder.parent)
        or (folder / ".git").exists()
    ):
        return found
    return target_for(folder.parent, top)


def project_root(folder: Path) -> Path:
    """The repository that holds `folder`, else the nearest folder that is a Python project, else
    `folder`.
    """
    above = (folder, *folder.parents)
    repositories = (one for one in above if (one / ".git").exists())
    projects = (
        one for one in above if any((one / name).is_file() for name in _PROJECT)
    )
    return next(repositories, None) or next(projects, folder)


@functools.cache
def _in(folder: Path) -> tuple[int, int] | None:
    texts = [*map(_text, _files(folder)), *_listed(folder)]
    asked = [_CHECK.sub("", text) for text in texts]
    bounds = [bound for text in asked if (bound := oldest(text)) is not None]
    # What `setup.py` checks while it builds counts where nothing is required.
    checked = bounds or [b for text in texts if (b := oldest(text)) is not None]
    return min(checked, default=None)


def _files(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - no path for each
    except OSError:
        return
    yield from (folder / name for name in names if _FILES.match(name))
    if "requirements" in names and (folder / "requirements").is_dir():
        yield from sorted((folder / "requirements").rglob("*.txt"))


def _listed(folder: Path) -> Iterator[str]:
    """Texts of other names, all lines of which pip installs: `pip install -r environment.txt`."""
    try:
        texts = [
            folder / name
            for name in os.listdir(folder)  # noqa: PTH208
            if name[1:].endswith(".txt") and not _FILES.match(name)
        ]
        files = [
            entry for entry in sorted(texts) if entry.stat().st_size <= _LONGEST
        ]
    except OSError:
        return
    for file in files[:_MOST]:
        text = _text(file)
        lines = [one.strip() for one in _uncommented(text).splitlines()]
        if all(map(_REQUIREMENT.fullmatch, filter(None, lines))):
            yield text


def _text(file: Path) -> str:
    return (read_nearby(file) or b"").decode("utf-8", "replace")


def oldest(text: str) -> tuple[int, int] | None:
    """The lower bound of torch in a file of requirements; None where it names none. Where it has
    an upper bound alone, the newest torch below: that one is installed.
    """
    if "torch" not in text.lower():
        return None
    plain = _uncommented(text)
    found = [
        bound
        for kind in _REQUIREMENTS
        for line in kind.finditer(plain)
        for part in line["bounds"].split("}")
        if (bound := _bound(part)) is not None
    ]
    return min(found, default=None)


def _uncommented(text: str) -> str:
    return re.sub(r"(?m)(^|\s)#.*$", "", text)


def _bound(bounds: str) -> tuple[int, int] | None:
    """The first lower bound of `>=1.8,<2`, `==1.13.1`, `~=2.0`, `^2`, `=1.12=py39`, else what is
    below the upper one.
    """
    requirement = bounds.partition(";")[0].replace("(", " ")
    lower = _LOWER.search(requirement)
    if lower is not None and _version(lower) >= _FIRST:
        return _version(lower)
    upper = _UPPER.search(requirement)
    return _below(upper) if upper is not None else None


def _version(found: re.Match[str]) -> tuple[int, int]:
    return int(found["major"]), int(found["minor"] or 0)


def _below(upper: re.Match[str]) -> tuple[int, int] | None:
    """The newest release that an upper bound admits, where that is known."""
    major, minor = _version(upper)
    if upper["itself"] or int(upper["patch"] or 0):
        return major, minor  # `<1.13.1` admits 1.13.0
    if minor:
        return major, minor - 1
    return _LAST_1 if major == 2 else None
