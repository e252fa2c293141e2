"""What the migrator makes of a repository, and what is recorded of it."""

from __future__ import annotations

import difflib
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.record.repositories import HERE, Repository

OUTCOMES = HERE / "outcomes"
PROJECT = HERE.parents[1]
SECONDS = 900
Files = dict[str, dict[str, Any]]
"""By path: status, hash of the diff, and each loop's scope, status and reason."""


@dataclass(frozen=True)
class Outcome:
    """A repository after a migration."""

    files: Files
    diffs: Mapping[str, str]


def migrated(folder: Path, project: Path = PROJECT) -> Outcome:
    """Migrate the files in `folder`, which are rewritten, with the code of `project`."""
    texts = {path: path.read_bytes() for path in _sources(folder)}
    command = [sys.executable, str(HERE / "driver.py"), str(project)]
    done = subprocess.run(
        [*command, "--output-format", "json", "."],
        cwd=folder,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.decode(errors="replace")[-2000:])
    diffs = {
        path.relative_to(folder).as_posix(): _diff(path.relative_to(folder), before, after)
        for path, before in texts.items()
        if (after := path.read_bytes()) != before
    }
    return Outcome(dict(_told(json.loads(done.stdout), diffs)), diffs)


def _sources(folder: Path) -> list[Path]:
    return [p for end in ("py", "ipynb") for p in sorted(folder.rglob(f"*.{end}")) if p.is_file()]


def _diff(path: Path, before: bytes, after: bytes) -> str:
    old, new = (data.decode(errors="surrogateescape").splitlines() for data in (before, after))
    name = path.as_posix()
    return "\n".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="")) + "\n"


def _told(report: Any, diffs: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(report["files"], key=lambda one: str(one["path"])):
        path = Path(file["path"]).as_posix()
        if not file["loops"] and file["status"] == "unchanged":
            continue
        loops = [
            " ".join(filter(None, (loop["scope"], loop["status"], loop["reason"])))
            for loop in file["loops"]
        ]
        found = {"status": file["status"], "loops": loops}
        if path in diffs:
            digest = hashlib.sha256(diffs[path].encode(errors="surrogateescape")).hexdigest()
            found["diff"] = digest[:16]
        yield path, found


def recorded(repository: Repository) -> Files:
    """What is recorded of a repository; nothing where it is new."""
    file = OUTCOMES / f"{repository.label}.json"
    if not file.exists():
        return {}
    files: Files = json.loads(file.read_text(encoding="utf-8"))["files"]
    return files


def record(repository: Repository, files: Files) -> None:
    """Write down the outcome."""
    OUTCOMES.mkdir(exist_ok=True)
    data = {"repository": repository.name, "commit": repository.commit, "files": files}
    text = json.dumps(data, indent=1, ensure_ascii=True) + "\n"
    (OUTCOMES / f"{repository.label}.json").write_text(text, encoding="utf-8")


def changes(old: Files, new: Files) -> list[str]:
    """What is different, a line for each loop, and one for each file whose diff alone differs."""
    lines = []
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path, {}), new.get(path, {})
        gone = [loop for loop in before.get("loops", []) if loop not in after.get("loops", [])]
        come = [loop for loop in after.get("loops", []) if loop not in before.get("loops", [])]
        lines += [f"{path}: - {loop}" for loop in gone] + [f"{path}: + {loop}" for loop in come]
        if not gone and not come and before != after:
            lines.append(f"{path}: {_of_file(before)} -> {_of_file(after)}")
    return lines


def _of_file(file: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (file.get("status", "nothing"), file.get("diff"))))
