"""The programs of `fixtures/` and what their `case.toml` says about them."""

from __future__ import annotations

import io
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amp_migrate import config
from amp_migrate.config import Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


@dataclass(frozen=True)
class ExpectedLoop:
    """What is to become of one loop, in source order."""

    scope: str
    status: str
    reason: str | None = None


@dataclass(frozen=True)
class Case:
    """One folder of `fixtures/`; `after` is None for a program that no loop of may be rewritten."""

    name: str
    before: Path
    after: Path | None
    settings: Settings
    loops: tuple[ExpectedLoop, ...]
    level: str = ""

    @property
    def migrates(self) -> bool:
        return any(loop.status == "migrated" for loop in self.loops)


def migrated_cases() -> list[Case]:
    """Every program with a `before.py` and an `after.py`."""
    return [
        _load(path.parent, "before.py", "after.py") for path in sorted(FIXTURES.glob("*/before.py"))
    ]


def refused_cases() -> list[Case]:
    """Every program of `fixtures/refused/`."""
    return [
        _load(path.parent, "program.py", None)
        for path in sorted(FIXTURES.glob("refused/*/program.py"))
    ]


def notebook_cases() -> list[Case]:
    """Every notebook of `fixtures/`, and with no `after` those of `fixtures/refused/`."""
    migrated = [
        _load(path.parent, path.name, "after.ipynb")
        for path in sorted(FIXTURES.glob("*/before.ipynb"))
    ]
    refused = [
        _load(path.parent, path.name, None)
        for path in sorted(FIXTURES.glob("refused/*/program.ipynb"))
    ]
    return [*migrated, *refused]


@dataclass(frozen=True)
class Project:
    """A program of several files; `after` is None where none of its loops may be rewritten."""

    name: str
    before: Path
    after: Path | None
    main: str
    settings: Settings
    loops: tuple[tuple[str, ExpectedLoop], ...]
    """By file, in the order of files and lines."""

    def files(self) -> list[Path]:
        """The modules as they were, sorted."""
        return sorted(self.before.rglob("*.py"))


def project_cases() -> list[Project]:
    """Every folder of `fixtures/` with a folder `before`, and the refused ones with a folder
    `program`.
    """
    folders = [*sorted(FIXTURES.glob("*/before/")), *sorted(FIXTURES.glob("refused/*/program/"))]
    return [_project(folder) for folder in folders if folder.is_dir()]


def _project(before: Path) -> Project:
    facts = tomllib.loads((before.parent / "case.toml").read_text(encoding="utf-8"))
    after = before.parent / "after" if before.name == "before" else None
    loops = tuple((loop.pop("file"), ExpectedLoop(**loop)) for loop in facts["loops"])
    main = facts.get("main", "main.py")
    return Project(
        before.parent.name, before, after, main, _settings(facts.get("options", {})), loops
    )


def read_source(path: Path) -> str:
    """The text as the migrator gets it: decoded by its cookie, without a byte order mark, line
    ends kept.
    """
    raw = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    return raw.decode(encoding)


def _load(folder: Path, before: str, after: str | None) -> Case:
    facts = tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))
    return Case(
        name=folder.name,
        before=folder / before,
        after=folder / after if after else None,
        settings=_settings(facts.get("options", {})),
        loops=tuple(ExpectedLoop(**loop) for loop in facts["loops"]),
        level=facts.get("level", ""),
    )


def _settings(options: dict[str, Any]) -> Settings:
    target = options.pop("target_torch", None)
    version = tuple(int(part) for part in target.split(".")) if target else None
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    if "switch" in options:
        options["switch"] = config.switch(options["switch"])
    return config.switched(Settings(**options, target_torch=version))  # type: ignore[arg-type]
