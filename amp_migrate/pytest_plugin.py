"""The fixture `amp_verify`: a test that a program trains with mixed precision as without it.

Loaded by pytest wherever this package is installed, so it imports nothing of it before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from amp_migrate.runtime.report import Report

Verify = Callable[..., "Report"]


@pytest.fixture
def amp_verify() -> Verify:
    """Verify a program; the test fails with the checks that fail.

    ``amp_verify("train.py", ["--epochs", "1"], steps=20, device="cpu", quick=True)``: keywords are
    the options of ``amp-migrate verify``, with underscores. Returns the report.
    """
    pytest.importorskip("torch")
    return _verify


def _verify(
    program: str, args: Sequence[object] = (), **options: Any
) -> Report:
    from amp_migrate.cli.verify import verify
    from amp_migrate.runtime.command import verified

    given = verify.make_context(
        "amp_verify", _words(program, args, options)
    ).params
    report, _ = verified(given.pop("program"), given.pop("arguments"), given)
    if report.verdict != "pass":
        failed = [check for check in report.checks if check.verdict == "fail"]
        told = [f"fail  {check.name}: {check.message}" for check in failed]
        told += [f"advice: {advice}" for advice in report.advice]
        words = " ".join([program, *map(str, args)])
        pytest.fail(
            f"amp-migrate verify {words}\n" + "\n".join(told), pytrace=False
        )
    return report


def _words(
    program: str, args: Sequence[object], options: dict[str, Any]
) -> list[str]:
    """The command line; a keyword that is true is a flag."""
    found: list[str] = []
    for name, value in options.items():
        flag = "-m" if name == "as_module" else f"--{name.replace('_', '-')}"
        if value is True:
            found.append(flag)
        elif value is not None and value is not False:
            found += [flag, str(value)]
    return [*found, program, *map(str, args)]
