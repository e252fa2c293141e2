"""One zygote for all verifications of a test process, and a small program to break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amp_migrate.runtime.report import Options, Program, Report
from amp_migrate.runtime.supervise import Limits, Supervisor
from amp_migrate.runtime.verify import Verifier

pytest.importorskip("torch")


def quiet(job: object, state: object) -> None:
    """Watch nothing."""


@pytest.fixture(scope="session")
def supervisor() -> Iterator[Supervisor]:
    with Supervisor(Limits(timeout=120), 0, "cpu", quiet) as shared:
        yield shared


Verify = Callable[..., Report]


@pytest.fixture
def verify(supervisor: Supervisor, tmp_path: Path) -> Verify:
    """Verify two texts of a program against each other."""

    def verify(before: str, after: str, steps: int = 10, dtype: str = "float16") -> Report:
        script = tmp_path / "train.py"
        script.write_text(before, encoding="utf-8")
        program = Program(str(script), (), False, {dtype: {str(script.resolve()): after}}, tmp_path)
        return Verifier(program, Options(steps=steps, diagnose=False), supervisor).run()

    return verify


def failed(report: Report) -> set[str]:
    """Names of the checks that failed."""
    return {check.name for check in report.checks if check.verdict == "fail"}
