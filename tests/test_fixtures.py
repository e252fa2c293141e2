"""Every program of `fixtures/`: the text that the migrator makes of it, and what it does when it
is run.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from amp_migrate.outcome import FileOutcome
from tests.harness.cases import Case, ExpectedLoop, migrated_cases, read_source, refused_cases
from tests.harness.worker import Trace, Worker

MIGRATED = migrated_cases()
REFUSED = refused_cases()

every_migrated = pytest.mark.parametrize("case", MIGRATED, ids=lambda case: case.name)
every_refused = pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with closing(Worker()) as process:
        yield process


def migrate(case: Case) -> FileOutcome:
    # Imported here, so that the programs can be run while the migrator cannot be imported.
    module = importlib.import_module("amp_migrate.pipeline.migrate")
    outcome: FileOutcome = module.migrate_text(
        read_source(case.before), case.before.name, case.settings
    )
    return outcome


@every_migrated
def test_the_output_is_the_one_written_by_hand(case: Case) -> None:
    assert case.after is not None
    expected = read_source(case.after)
    output = migrate(case).output
    assert (output if case.migrates else output or read_source(case.before)) == expected


@pytest.mark.parametrize("case", MIGRATED + REFUSED, ids=lambda case: case.name)
def test_every_loop_gets_its_status_and_reason(case: Case) -> None:
    found = [ExpectedLoop(loop.scope, loop.status, loop.reason) for loop in migrate(case).loops]
    assert found == list(case.loops)


@every_refused
def test_a_refused_program_is_left_alone(case: Case) -> None:
    assert migrate(case).output is None


@every_migrated
def test_a_second_run_changes_nothing(case: Case) -> None:
    """Fixes of AMP that is there included, which a migration applies as well."""
    assert case.after is not None
    again = migrate(replace(case, before=case.after))
    assert again.output is None, again.changes


@every_migrated
def test_with_amp_off_nothing_changes(case: Case, worker: Worker) -> None:
    assert case.after is not None
    before, after = (succeeded(worker.run(path, "off")) for path in (case.before, case.after))
    assert before.losses, "the program calls no backward"
    assert after.loss_digests == before.loss_digests
    assert after.parameters == before.parameters
    assert after.steps == before.steps


@pytest.mark.parametrize(
    "case", [case for case in MIGRATED if case.migrates], ids=lambda case: case.name
)
def test_with_amp_on_it_trains(case: Case, worker: Worker) -> None:
    assert case.after is not None
    trace = succeeded(worker.run(case.after, "on"))
    assert all(math.isfinite(loss) for loss in trace.losses)
    assert trace.steps > 0
    assert trace.parameters != trace.initial_parameters
    assert trace.violations == []
    assert len(trace.autocast_dtypes) == 1
    if trace.autocast_dtypes == ["float16"]:
        check_scaler(trace)
    else:
        assert trace.scales == []


def check_scaler(trace: Trace) -> None:
    assert trace.scales
    assert all(scale > 0 for scale in trace.scales)
    assert trace.calls["scale"] == trace.calls["backward"] > 0
    assert 0 < trace.calls["update"] <= max(trace.calls["step"], trace.calls["unscale_"])


def succeeded(trace: Trace) -> Trace:
    assert trace.error is None, trace.error
    return trace
