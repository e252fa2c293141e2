"""A scaler is made before it is used: loops by hand above the optimizer are refused, not handed a name of later."""

from __future__ import annotations

from amp_migrate.config import Settings
from amp_migrate.migrate import migrate_text
from tests.migrate.programs import HEAD, LOOP

MODEL, _, OPTIMIZER = HEAD.rstrip("\n").rpartition("\n")
TRAIN = LOOP + "    loss = criterion(model(x), y)\n    loss.backward()\n"
BY_HAND = TRAIN + "    update(model.parameters(), 0.1)\n"
STEPS = TRAIN + "    optimizer.step()\n"
UPDATE = "def update(parameters, rate):\n    for p in parameters:\n        p.data = p.data - rate * p.grad.data\n"


def status(source: str) -> tuple[str, str | None]:
    (loop,) = migrate_text(source, "train.py", Settings()).loops
    return loop.status, loop.reason


def test_by_hand_before_the_optimizer() -> None:
    source = f"{MODEL}\n{UPDATE}{BY_HAND}{OPTIMIZER}\n{STEPS}"
    outcome = migrate_text(source, "train.py", Settings())
    (loop,) = outcome.loops
    assert (outcome.status, loop.status, loop.reason) == ("refused", "refused", "step-elsewhere")
    assert "before any optimizer is made" in str(loop.message)


def test_in_a_function_too() -> None:
    inner = "".join(f"    {line}\n" for line in f"{BY_HAND}{OPTIMIZER}\n{STEPS}".splitlines())
    assert status(f"{MODEL}\n{UPDATE}def fit():\n{inner}") == ("refused", "step-elsewhere")


def test_an_optimizer_inside_the_loop_around() -> None:
    inner = "".join(f"    {line}\n" for line in f"{OPTIMIZER}\n{STEPS}".splitlines())
    assert status(f"{MODEL}\nfor fold in range(3):\n{inner}") == ("migrated", None)


def test_the_optimizer_first() -> None:
    assert status(f"{HEAD}{STEPS}{OPTIMIZER}\n{STEPS}") == ("migrated", None)
