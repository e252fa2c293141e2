"""`--eval`: forwards without gradients under autocast too."""

from __future__ import annotations

import pytest

from tests.planner.programs import HEAD, LOOP, WITH, output, text

TRAIN = LOOP + "    loss = criterion(model(x), y)\n    loss.backward()\n    optimizer.step()\n"


def after(lines: str, **options: object) -> str:
    """What becomes of the lines after a training loop."""
    return output(HEAD + TRAIN + lines, **options).rpartition("scaler.update()\n")[2]


LOOPS = {
    "no_grad": (
        "with torch.no_grad():\n    for x, y in test:\n        output = model(x.to(device))\n"
        "        correct += output.argmax(1).eq(y).sum()\n"
    ),
    "inference_mode": (
        "with torch.inference_mode():\n    for x, y in test:\n"
        "        output = model(x.to(device))\n        correct += output.argmax(1).eq(y).sum()\n"
    ),
}


@pytest.mark.parametrize("lines", LOOPS.values(), ids=LOOPS)
def test_the_forward_is_wrapped(lines: str) -> None:
    forward = "        output = model(x.to(device))\n"
    assert after(lines, eval=True) == lines.replace(forward, f"        {WITH}\n    {forward}")


@pytest.mark.parametrize("lines", LOOPS.values(), ids=LOOPS)
def test_by_default_it_is_left_alone(lines: str) -> None:
    assert after(lines) == lines


def test_the_loss_goes_with_it() -> None:
    lines = (
        "with torch.no_grad():\n    output = model(x)\n    loss = criterion(output, y)\n    "
        "total += loss.item()\n"
    )
    assert after(lines, eval=True) == text(
        """
        with torch.no_grad():
            WITH:
                output = model(x)
                loss = criterion(output, y)
            total += loss.item()
        """
    )


def test_a_decorated_function() -> None:
    lines = "@torch.no_grad()\ndef test(x):\n    output = model(x)\n    return output.argmax(1)\n"
    assert f"    {WITH}\n        output = model(x)\n    return" in after("\n\n" + lines, eval=True)


QUIET = {
    "no model": (
        "with torch.no_grad():\n    for p in model.parameters():\n        p.clamp_(-1, 1)\n"
    ),
    "with gradients": "output = model(x)\nprint(output.mean().item())\n",
    "a moving average": (
        "with torch.no_grad():\n    for p, q in zip(model.parameters(), other.parameters()):\n   "
        "     q.lerp_(p, 0.1)\n"
    ),
}


@pytest.mark.parametrize("lines", QUIET.values(), ids=QUIET)
def test_the_rest_stays(lines: str) -> None:
    assert after(lines, eval=True) == lines
