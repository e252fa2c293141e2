"""The oldest torch that a project supports, by its own files: pyproject.toml, setup.cfg,
requirements, environments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.patterns import pattern
from amp_migrate.regular_files import read_nearby

_FILES = pattern(
    r"^(pyproject\.toml|setup\.(cfg|py)|requirements?[\w.-]*\.(txt|in)"
    r"|(environment|conda)[\w.-]*\.ya?ml)$"
)
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
# The name as a requirement, not as a part of torchvision or of a path; conda calls it pytorch.
_TORCH = pattern(
    r"""(?mi)(?:^|["'\s])(?:pytorch::?)?(?:py)?torch["']?\s*(?:\[[^\]]*\])?\s*"""
    r"""(?P<bounds>(?:[=<>!~^]|["']\s*[\^~=<>\d]|\(\s*[=<>~]).*)$"""
)
_BOUND = pattern(
    r"(?P<kind>~=|(?<![!<])={1,3}|>=?|\^|~|(?<=[\"']))\s*[\"']?\s*v?(?P<major>\d+)\.(?P<minor>\d+)"
)


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
    bounds = [
        bound
        for file in _files(folder)
        if (bound := oldest(_text(file))) is not None
    ]
    return min(bounds, default=None)


def _files(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return
    yield from (folder / name for name in names if _FILES.match(name))
    if "requirements" in names and (folder / "requirements").is_dir():
        yield from sorted((folder / "requirements").rglob("*.txt"))


def _text(file: Path) -> str:
    return (read_nearby(file) or b"").decode("utf-8", "replace")


def oldest(text: str) -> tuple[int, int] | None:
    """The lower bound of torch in a file of requirements; None where it names none."""
    if "torch" not in text.lower():
        return None
    bounds = [
        found
        for line in _TORCH.finditer(_uncommented(text))
        if (found := _lower(line["bounds"])) is not None
    ]
    return min(bounds) if bounds else None


def _uncommented(text: str) -> str:
    return re.sub(r"(?m)(^|\s)#.*$", "", text)


def _lower(bounds: str) -> tuple[int, int] | None:
    """The first lower bound of `>=1.8,<2`, `==1.13.1`, `~=2.0`, `^2.0`, `=1.12=py39`."""
    requirement = bounds.partition(";")[0].replace("(", " ")
    found = _BOUND.search(requirement)
    return (int(found["major"]), int(found["minor"])) if found else None
