"""A gradient that is wrong only with AMP on is found, however small the error is against what
rounding does.
"""

from __future__ import annotations

import pytest

from tests.runtime.conftest import Verify, failed
from tests.runtime.programs import AFTER, BEFORE, edited

LOSS = "loss = torch.nn.functional.mse_loss(output, y.to(device))"
BACKWARD = "scaler.scale(loss).backward()"
UNSCALE = "            scaler.unscale_(optimizer)\n"
CLIP = "            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
PLAIN = edited(BEFORE, (CLIP, ""))
SCALED = edited(AFTER, (CLIP, ""))


def only_with_amp(text: str) -> str:
    return f"            if scaler.is_enabled():\n                {text}\n"


WRONG = {
    "5% too long": (
        UNSCALE,
        UNSCALE + only_with_amp("[p.grad.mul_(1.05) for p in model.parameters()]"),
    ),
    "20% too short": (
        UNSCALE,
        UNSCALE + only_with_amp("[p.grad.mul_(0.8) for p in model.parameters()]"),
    ),
    "the sign of one bias": (UNSCALE, UNSCALE + only_with_amp("model[0].bias.grad.neg_()")),
    "the sign of one weight": (UNSCALE, UNSCALE + only_with_amp("model[2].weight.grad.neg_()")),
    "one layer 20% too long": (UNSCALE, UNSCALE + only_with_amp("model[0].weight.grad.mul_(1.2)")),
    "one layer is lost": (UNSCALE, UNSCALE + only_with_amp("model[0].bias.grad.zero_()")),
}
NEW = {"amp: gradient scale", "amp: gradients of layers", "amp: gradients"}


@pytest.mark.parametrize("edit", WRONG.values(), ids=WRONG)
def test_a_wrong_gradient_fails(verify: Verify, edit: tuple[str, str]) -> None:
    report = verify(PLAIN, edited(SCALED, edit), steps=4)
    assert failed(report) & NEW, [check for check in report.checks if "gradient" in check.name]
    assert not failed(report) & {"amp-off: losses", "amp-off: parameters", "amp: protocol"}


TERM = " + 0.03 * sum(p.square().sum() for p in model.parameters())"


def test_a_missing_term_fails(verify: Verify) -> None:
    """A regularizer that is left out when AMP is on: the loss band alone would let it pass."""
    before = edited(PLAIN, (LOSS, LOSS + TERM))
    missing = edited(
        SCALED, (LOSS, LOSS + " + (not scaler.is_enabled())" + TERM.replace(" + 0.03", " * 0.03"))
    )
    report = verify(before, missing, steps=4)
    assert {"amp: first loss", "amp: gradients of layers"} & failed(report), report.checks
    assert "amp-off: losses" not in failed(report)
    assert failed(verify(before, edited(SCALED, (LOSS, LOSS + TERM)), steps=4)) == set()


LEFT_OUT = edited(
    BEFORE,
    (
        "            optimizer.step()\n",
        "            if norm < 1.5:\n                optimizer.step()\n",
    ),
    ("torch.nn.utils.clip_grad_norm_(model", "norm = torch.nn.utils.clip_grad_norm_(model"),
)
LEFT_OUT_SCALED = edited(
    AFTER,
    (
        "            scaler.step(optimizer)\n",
        "            if norm < 1.5:\n                scaler.step(optimizer)\n",
    ),
    ("torch.nn.utils.clip_grad_norm_(model", "norm = torch.nn.utils.clip_grad_norm_(model"),
)


def test_steps_that_the_program_leaves_out_are_not_held_against_others(verify: Verify) -> None:
    """With an overflow the norm is inf, so the first step taken is one of other data."""
    large = ("mse_loss(output, y.to(device))", "mse_loss(output, y.to(device)) * 3")
    report = verify(
        edited(LEFT_OUT, large, ("1.5", "150")),
        edited(LEFT_OUT_SCALED, large, ("1.5", "150")),
        steps=6,
    )
    assert not failed(report) & NEW, [check for check in report.checks if "gradient" in check.name]
    drill = next(check for check in report.checks if check.name == "amp: overflow drill")
    assert drill.verdict == "pass", drill
