"""A scaler is made before it is used: loops by hand above the optimizer keep their own verdict."""

from __future__ import annotations

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text
from tests.planner.programs import HEAD, LOOP

MODEL, _, OPTIMIZER = HEAD.rstrip("\n").rpartition("\n")
TRAIN = LOOP + "    loss = criterion(model(x), y)\n    loss.backward()\n"
BY_HAND = TRAIN + "    update(model.parameters(), 0.1)\n"
STEPS = TRAIN + "    optimizer.step()\n"
UPDATE = (
    "def update(parameters, rate):\n    for p in parameters:\n        p.data = p.data - "
    "rate * p.grad.data\n"
)


BOTH = [("refused", "step-elsewhere"), ("migrated", None)]


def status(source: str) -> list[tuple[str, str | None]]:
    return [(one.status, one.reason) for one in migrate_text(source, "train.py", Settings()).loops]


def test_by_hand_before_the_optimizer() -> None:
    source = f"{MODEL}\n{UPDATE}{BY_HAND}{OPTIMIZER}\n{STEPS}"
    outcome = migrate_text(source, "train.py", Settings())
    assert status(source) == BOTH
    assert "parameters are updated by hand" in str(outcome.loops[0].message)
    assert outcome.output is not None
    assert outcome.output.count("scaler.scale(loss)") == 1


def test_in_a_function_too() -> None:
    inner = "".join(f"    {line}\n" for line in f"{BY_HAND}{OPTIMIZER}\n{STEPS}".splitlines())
    assert status(f"{MODEL}\n{UPDATE}def fit():\n{inner}") == BOTH


def test_an_optimizer_inside_the_loop_around() -> None:
    inner = "".join(f"    {line}\n" for line in f"{OPTIMIZER}\n{STEPS}".splitlines())
    assert status(f"{MODEL}\nfor fold in range(3):\n{inner}") == [("migrated", None)]


def test_the_optimizer_first() -> None:
    assert status(f"{HEAD}{STEPS}{OPTIMIZER}\n{STEPS}") == [("migrated", None)] * 2


def test_a_step_above_what_makes_its_optimizer() -> None:
    outcome = migrate_text(f"{MODEL}\n{STEPS}{OPTIMIZER}\n", "train.py", Settings())
    assert [(one.status, one.reason) for one in outcome.loops] == [("refused", "unsupported-shape")]
    assert "stands above what makes its optimizer" in str(outcome.loops[0].message)
