"""Programs of fixtures/ pass; the whole set takes minutes, so the fast suite runs a sample of
different shapes.
"""

from __future__ import annotations

import os
from importlib.util import decode_source
from pathlib import Path

import pytest

from amp_migrate.runtime.report import Options, Program
from amp_migrate.runtime.supervise import Supervisor
from amp_migrate.runtime.verify import Verifier
from tests.runtime.conftest import failed

FIXTURES = Path(__file__).parents[2] / "fixtures"
SAMPLE = [
    "accumulation_boundary",
    "dcgan_logits",
    "dqn_target_network",
    "unconditional_cuda",
    "word_rnn",
]
NAMES = SAMPLE
if os.environ.get("AMP_MIGRATE_ALL_FIXTURES"):
    NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/after.py"))


@pytest.mark.parametrize("name", NAMES)
def test_a_fixture_passes(name: str, supervisor: Supervisor, tmp_path: Path) -> None:
    before = FIXTURES / name / "before.py"
    after = decode_source(before.with_name("after.py").read_bytes())
    same = after == decode_source(before.read_bytes())
    program = Program(
        str(before), (), False, {"float16": {os.path.realpath(before): after}}, tmp_path
    )
    report = Verifier(program, Options(steps=8, scratch=True, diagnose=False), supervisor).run()
    expected = {"amp: engaged"} if same else set()
    assert failed(report) == expected, [check for check in report.checks if check.verdict == "fail"]
    assert not any(tmp_path.iterdir())
