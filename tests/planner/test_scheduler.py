"""`--guard-scheduler`: the scheduler steps only where the optimizer did."""

from __future__ import annotations

import pytest

from tests.planner.programs import body, text

SCHEDULER = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"
REGION = "loss = criterion(model(x), y)\nloss.backward()\n"
WRAPPED = "WITH:\n    loss = criterion(model(x), y)\nscaler.scale(loss).backward()\n"
GUARDED = (
    "scaler.step(optimizer)\nscale_before = scaler.get_scale()\nscaler.update()\n"
    "if scaler.get_scale() >= scale_before:\n    scheduler.step()\n"
)


def test_a_scheduler_of_the_batch_is_guarded() -> None:
    new = body(
        REGION + "optimizer.step()\nscheduler.step()\n", before=SCHEDULER, guard_scheduler=True
    )
    assert new == text(WRAPPED + GUARDED)


def test_statements_between_stay_where_they_are() -> None:
    new = body(
        REGION + "optimizer.step()\ncount += 1\nscheduler.step()\n",
        before=SCHEDULER,
        guard_scheduler=True,
    )
    assert new == text(WRAPPED + GUARDED.replace("if scaler", "count += 1\nif scaler"))


def test_by_default_it_is_left_where_it_is() -> None:
    new = body(REGION + "optimizer.step()\nscheduler.step()\n", before=SCHEDULER)
    assert new == text(WRAPPED + "scaler.step(optimizer)\nscaler.update()\nscheduler.step()\n")


QUIET = {
    "none": "optimizer.step()\n",
    "a profiler": "optimizer.step()\nprofiler.step()\n",
    "an environment": "optimizer.step()\nenv.step(action)\n",
}


@pytest.mark.parametrize("steps", QUIET.values(), ids=QUIET)
def test_other_steps_are_no_schedulers(steps: str) -> None:
    new = body(REGION + steps, before=SCHEDULER, guard_scheduler=True)
    assert "get_scale" not in new
    assert new == text(
        WRAPPED + steps.replace("optimizer.step()", "scaler.step(optimizer)\nscaler.update()")
    )


def test_bfloat16_skips_no_step() -> None:
    steps = "optimizer.step()\nscheduler.step()\n"
    new = body(REGION + steps, before=SCHEDULER, guard_scheduler=True, dtype="bfloat16")
    assert new.endswith("loss.backward()\n" + steps)
