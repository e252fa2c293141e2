"""The notebooks of `fixtures/`: their bytes after migration, and what they do when their text is
run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from amp_migrate.pipeline.one_file import Rewritten, rewrite_bytes
from amp_migrate.project.notebook import decode
from tests.harness.cases import Case, ExpectedLoop, notebook_cases
from tests.harness.worker import Mode, Trace, Worker
from tests.test_fixtures import check_scaler, succeeded

CASES = notebook_cases()
# What IPython has and the text refers to: commands that print nothing.
IPYTHON = "get_ipython = lambda command: []\n"

every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_migrated = pytest.mark.parametrize(
    "case", [case for case in CASES if case.after], ids=lambda case: case.name
)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with closing(Worker()) as process:
        yield process


def migrate(case: Case) -> Rewritten:
    return rewrite_bytes(case.before.name, case.before.read_bytes(), case.settings)


def ran(worker: Worker, notebook: Path | None, folder: Path, mode: Mode) -> Trace:
    assert notebook is not None
    program = folder / f"{notebook.stem}.py"
    program.write_text(IPYTHON + decode(notebook.read_bytes()).text, encoding="utf-8")
    return succeeded(worker.run(program, mode))


def test_there_are_notebooks_of_both_kinds() -> None:
    assert {case.after is None for case in CASES} == {True, False}


@every
def test_the_bytes_are_those_written_by_hand(case: Case) -> None:
    result = migrate(case)
    assert result.after == (case.after.read_bytes() if case.after else result.before)


@every
def test_every_loop_gets_its_status_and_reason(case: Case) -> None:
    found = [
        ExpectedLoop(loop.scope, loop.status, loop.reason) for loop in migrate(case).outcome.loops
    ]
    assert found == list(case.loops)


@every_migrated
def test_with_amp_off_nothing_changes(case: Case, worker: Worker, tmp_path: Path) -> None:
    before, after = (ran(worker, path, tmp_path, "off") for path in (case.before, case.after))
    assert before.losses
    assert (after.loss_digests, after.parameters, after.steps) == (
        before.loss_digests,
        before.parameters,
        before.steps,
    )


@every_migrated
def test_with_amp_on_it_trains(case: Case, worker: Worker, tmp_path: Path) -> None:
    trace = ran(worker, case.after, tmp_path, "on")
    assert trace.parameters != trace.initial_parameters
    assert trace.violations == []
    assert trace.autocast_dtypes == ["float16"]
    check_scaler(trace)
