"""Generated programs in every run of all tests; their seed is a name, so that a failure can be made
again by `python -m tests.generated --show SEED`. The seed stays the same, so that a change of the code
is what makes the test fail: `GENERATED_SEED=$(date -I) GENERATED_PROGRAMS=200` asks new ones, and as
long as they find what `open_findings` lacks, they are asked by hand and not by every run.
"""

from __future__ import annotations

import os

import pytest

from tests.generated.axes import draw
from tests.generated.campaign import campaign, report
from tests.generated.open_findings import OPEN

COUNT = int(os.environ.get("GENERATED_PROGRAMS", "60"))
SEED = os.environ.get("GENERATED_SEED", "regression")


@pytest.mark.slow
def test_generated_programs_are_right_after_migration() -> None:
    found = list(campaign([f"{SEED}-{k}" for k in range(COUNT)], known=True))
    wrong = [one for one in found if one.verdict.faults]
    assert not wrong, "\n".join(report(one) for one in wrong[:3])
    broken = [one.seed for one in found if one.verdict.status == "broken"]
    assert len(broken) <= COUNT / 50, broken
    migrated = sum(one.verdict.status == "migrated" for one in found)
    assert migrated > COUNT / 2, f"only {migrated} of {COUNT} were migrated"


def test_open_findings_name_choices_that_exist() -> None:
    import random

    from tests.generated.axes import AXES

    assert set(draw(random.Random(1))) == set(AXES)
    assert all(choices <= set(AXES[axis]) for axis, choices in OPEN.items())
