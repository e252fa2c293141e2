"""Programs of several files on their way through a run: written whole or not at all, whatever
comes between.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from amp_migrate.config import Settings
from amp_migrate.outcome import FileOutcome, LoopOutcome
from amp_migrate.pipeline import atomic_write as replace
from amp_migrate.pipeline import programs
from amp_migrate.pipeline import workers as parallel
from amp_migrate.pipeline.workers import Died
from amp_migrate.project.module_graph import Project
from tests.cli import stub
from tests.cli.conftest import Run

Write = Callable[..., Path]

CALLER = "from engine import train\n"
ENGINE = "# NEEDS its caller\nloss.backward()\n"


def migrate_texts(
    texts: Mapping[str, str], settings: Settings, project: Project, **_: object
) -> stub.Joint:
    """A file that NEEDS its caller is migrated with its importers, which get a comment."""
    outcomes: dict[str, FileOutcome] = {}
    company: tuple[str, ...] = ()
    for path, text in texts.items():
        callers = [real for real in project.users(str(Path(path).resolve())) if "NEEDS" in text]
        company += tuple(callers)
        together = {str(Path(other).resolve()) for other in texts}
        if "migrated" in text or "backward" not in text:
            outcomes.setdefault(path, FileOutcome(path, "unchanged"))
        elif callers and together.issuperset(callers):
            for other, its in texts.items():
                if other == path or str(Path(other).resolve()) in callers:
                    loops = (LoopOutcome(2, "train", "migrated"),) if other == path else ()
                    outcomes[other] = FileOutcome(
                        other, "migrated", loops, output=its + "# migrated\n"
                    )
        elif "NEEDS" in text:
            loop = LoopOutcome(2, "train", "refused", "callers-in-other-modules", "who calls?")
            outcomes[path] = FileOutcome(path, "refused", (loop,))
        else:
            outcomes[path] = stub.migrate_text(text, path, settings)
    return stub.Joint(outcomes, company)


@pytest.fixture
def together(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line with a migrator that joins files."""
    monkeypatch.setattr(sys.modules["amp_migrate.pipeline.migrate"], "migrate_texts", migrate_texts)
    return run


@pytest.fixture
def project(write: Write) -> list[Path]:
    """Two programs of two files each, and a file by itself."""
    return [
        write("a/main.py", CALLER),
        write("a/engine.py", ENGINE),
        write("b/main.py", CALLER),
        write("b/engine.py", ENGINE),
        write("lone.py", stub.LOOP),
    ]


def written(project: Sequence[Path]) -> list[bool]:
    return [path.read_text() not in (CALLER, ENGINE, stub.LOOP) for path in project]


def leftovers(folder: Path) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names if name.startswith(".")]


def test_programs_are_written_whole(together: Run, project: list[Path], tmp_path: Path) -> None:
    ran = together(".")
    assert ran.code == 0
    assert "Migrated 3 loops in 5 files (5 files looked at)." in ran.text
    assert written(project) == [True] * 5
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_change_nothing(
    together: Run, project: list[Path], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """As they come from workers, in another order."""
    real = parallel.each

    def reversed_each(
        function: Callable[[Any], Any], tasks: Sequence[Any], count: int
    ) -> Iterator[tuple[int, Any]]:
        found = list(real(function, tasks, count))
        yield from reversed(found) if workers else found

    monkeypatch.setattr(parallel, "each", reversed_each)
    ran = together(".")
    told = [line for line in ran.text.splitlines() if line.startswith("migrated")]
    assert told == [
        "migrated  a/engine.py:2 in train",
        "migrated  b/engine.py:2 in train",
        "migrated  lone.py:2 in <module>",
    ]
    assert written(project) == [True] * 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_while_a_program_is_written_waits_for_its_last_file(
    together: Run, project: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real, renamed = os.replace, []

    def rename(source: Path, target: Path) -> None:
        real(source, target)
        if Path(target).parent == tmp_path / "a" and Path(target).suffix == ".py":
            renamed.append(target)
            if len(renamed) == 1:
                signal.raise_signal(number)

    monkeypatch.setattr(replace.os, "replace", rename)
    ran = together(".")
    assert ran.code == 130
    assert len(renamed) == 2
    first, second = written(project[:2]), written(project[2:4])
    assert first == [True, True]
    assert second in ([True, True], [False, False])
    assert "the others are as they were" in ran.err
    assert leftovers(tmp_path) == []


def test_interrupt_before_programs_are_written(
    together: Run, project: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> list[list[object]]:
        raise KeyboardInterrupt

    monkeypatch.setattr("amp_migrate.pipeline.batch.conflicts", interrupted)
    ran = together(".")
    assert ran.code == 130
    assert written(project) == [False, False, False, False, True]
    assert "3 of 5 files were done" in ran.err


@pytest.mark.parametrize("locked", [0, 1])
def test_a_program_with_a_file_that_may_not_be_written(
    together: Run, project: list[Path], tmp_path: Path, locked: int
) -> None:
    project[locked].chmod(0o444)
    ran = together(".")
    assert ran.code == 1
    told = " ".join(ran.text.split())
    at, other = ("a/main.py", "a/engine.py") if locked == 0 else ("a/engine.py", "a/main.py")
    assert f"failed {at} cannot be written: it is read-only" in told
    assert (
        f"failed {other} left as it is, because {at} belongs to it and could not be written" in told
    )
    assert written(project) == [False, False, True, True, True]
    assert leftovers(tmp_path) == []


def test_what_cannot_be_put_back_is_told_of_all(
    together: Run, project: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, real_staged, renamed = os.replace, replace._staged, []

    def rename(source: Path, target: Path) -> None:
        if Path(target).parent == tmp_path / "a" and Path(target).suffix == ".py":
            renamed.append(target)
            if len(renamed) == 2:
                raise OSError(errno.EPERM, "denied")
        real(source, target)

    def staged(target: Path, data: bytes) -> Path:
        if renamed and target.parent == tmp_path / "a":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_staged(target, data)

    monkeypatch.setattr(replace.os, "replace", rename)
    monkeypatch.setattr(replace, "_staged", staged)
    ran = together(".")
    told = " ".join(ran.text.split())
    assert ran.code == 1
    assert told.count("could not be put back (No space left on device)") == 2
    assert sum(written(project[:2])) == 1
    monkeypatch.undo()
    os.chdir(tmp_path)
    assert "now written: " in together("--exclude", "b", "--exclude", "lone.py", ".").err
    assert written(project[:2]) == [True, True]
    assert leftovers(tmp_path) == []


def test_a_worker_that_dies_on_one_file_costs_no_other(
    together: Run, project: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = parallel.each

    def dying(
        function: Callable[[Any], Any], tasks: Sequence[Any], count: int
    ) -> Iterator[tuple[int, Any]]:
        for index, result in real(function, tasks, count):
            yield index, Died(-11) if tasks[index].paths[0].endswith("a/engine.py") else result

    monkeypatch.setattr(parallel, "each", dying)
    ran = together(".")
    assert ran.code == 1
    assert "failed a/engine.py its worker process died (SIGSEGV)" in " ".join(ran.text.split())
    assert written(project) == [False, False, True, True, True]


def test_a_worker_that_dies_on_a_joined_program_costs_all_its_files(
    together: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two engines with one caller want to write it, each in its own way; planned together, they
    kill their worker.
    """
    files = [
        write("main.py", "from one import train\nfrom two import train\n"),
        write("one.py", ENGINE),
        write("two.py", ENGINE + "# two\n"),
    ]
    before = [path.read_text() for path in files]
    real = parallel.each
    asked: list[programs.Task] = []

    def differing(task: programs.Task, settings: Settings, project: Project) -> programs.Together:
        found = programs.rewrite_task(task, settings, project)
        mark = Path(task.paths[0]).name.encode()
        changed = {
            real: one.__class__(one.outcome, one.before, one.after + mark)
            if Path(real).name == "main.py"
            else one
            for real, one in found.members.items()
        }
        return programs.Together(changed)

    def dying(
        function: Callable[[Any], Any], tasks: Sequence[Any], count: int
    ) -> Iterator[tuple[int, Any]]:
        asked.extend(tasks)
        for index, result in real(function, tasks, count):
            yield index, Died(-9) if len(tasks[index].paths) > 1 else result

    monkeypatch.setattr("amp_migrate.pipeline.batch.rewrite_task", differing)
    monkeypatch.setattr(parallel, "each", dying)
    ran = together(".")
    names = [[Path(real).name for real in sorted((*t.paths, *t.related))] for t in asked]
    alone, both = [["one.py"], ["two.py"]], ["main.py", "one.py", "two.py"]
    apart = [["main.py", "one.py"], ["main.py", "two.py"]]
    assert sorted(names) == sorted([*alone, both, *apart, both])
    assert ran.code == 1
    assert ran.text.count("its worker process died (SIGKILL)") == 3
    assert [path.read_text() for path in files] == before


def test_check_writes_no_program(together: Run, project: list[Path], tmp_path: Path) -> None:
    ran = together("--check", ".")
    assert ran.code == 1
    assert "Would migrate 3 loops in 5 files" in ran.text
    assert written(project) == [False] * 5
    assert leftovers(tmp_path) == []
