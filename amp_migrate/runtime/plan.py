"""The rewritten program, in memory: the script and its project's modules through the migrator."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.outcome import FileOutcome
from amp_migrate.pipeline.whole_program import rewrite_program
from amp_migrate.runtime.project import module_file, program_files
from amp_migrate.runtime.sources import rewritten


class ProgramError(ValueError):
    """The program cannot be found or is none."""


@dataclass
class Plan:
    """`texts`: real path -> rewritten text of the files that change."""

    script: Path
    outcomes: list[FileOutcome] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def migrated(self) -> bool:
        """Whether any loop of the program is rewritten."""
        return bool(self.texts)


def find_program(program: str, as_module: bool, cwd: Path) -> Path:
    """The file that holds the program. Raises ProgramError."""
    if as_module:
        file = module_file(program, cwd)
        if file is None:
            raise ProgramError(f"there is no module {program} in {cwd}")
        return file
    path = cwd / program
    file = path / "__main__.py" if path.is_dir() else path
    if not file.is_file():
        raise ProgramError(f"there is no file {program}")
    return file


def plan_program(
    script: Path, roots: Iterable[Path], settings: Settings
) -> Plan:
    """Rewrite `script` and the files below `roots` that it imports, as one program."""
    plan = Plan(script)
    for path, result in rewrite_program(
        program_files(script, list(roots)), settings
    ).items():
        plan.outcomes.append(result.outcome)
        if result.outcome.status == "migrated":
            plan.texts[os.path.realpath(path)] = rewritten(
                str(path), result.before, result.after, result.encoding
            )
    return plan


def search_path(script: Path, as_module: bool, cwd: Path) -> list[Path]:
    """Where the program's own modules are looked for: beside the script, or the working directory,
    and PYTHONPATH, but for folders that pip has installed into.
    """
    first = cwd if as_module else script.resolve().parent
    named = [
        Path(entry)
        for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if entry
    ]
    return list(
        dict.fromkeys(
            [first, *(path for path in named if not _is_installed(path))]
        )
    )


def _is_installed(path: Path) -> bool:
    return path.is_relative_to(sys.prefix) or any(path.glob("*.dist-info"))
