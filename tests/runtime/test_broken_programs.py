"""Broken rewrites: each fails, by the check that is meant for it."""

from __future__ import annotations

import pytest

from tests.runtime.conftest import Verify, failed
from tests.runtime.programs import AFTER, BEFORE, edited

UNSCALE = "            scaler.unscale_(optimizer)\n"
SCALER = '    scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")\n'
LOSS = "torch.nn.functional.mse_loss(output, y.to(device))"


def test_the_correct_rewrite_passes(verify: Verify) -> None:
    report = verify(BEFORE, AFTER)
    assert failed(report) == set()
    told = {check.name: check.verdict for check in report.checks}
    assert (
        told["amp: overflow drill"]
        == told["amp: checkpoint drill"]
        == told["amp: gradients"]
        == "pass"
    )
    assert report.runs.reference == "float64"


CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
UPDATE = "            scaler.update()\n"
EPOCHS = "    for epoch in range(6):\n"
BARE = ("scaler.step(optimizer)", "optimizer.step()")
Edits = list[tuple[str, str]]
BROKEN: dict[str, tuple[Edits, str, str]] = {
    "bare step": ([BARE], "amp: protocol", "bare-step-after-unscale"),
    "bare step, scaled": (
        [BARE, (UNSCALE, ""), (CLIP, "pass"), (UPDATE, "")],
        "amp: protocol",
        "bare-optimizer-step",
    ),
    "no unscale_ before clipping": ([(UNSCALE, "")], "amp: protocol", "clip-without-unscale"),
    "rebuilt": (
        [(SCALER, ""), (EPOCHS, f"{EPOCHS}    {SCALER}")],
        "amp: protocol",
        "scaler-created-per-epoch",
    ),
    "lost statement": (
        [("        scheduler.step()\n", "")],
        "amp-off: losses",
        "not those of the original",
    ),
    "backward": (
        [("            scaler.scale", "                scaler.scale")],
        "amp: protocol",
        "backward-inside",
    ),
    "no update": ([(UPDATE, "")], "amp: run", "raised"),
    "checkpoint": (
        [(', "scaler": scaler.state_dict()', "")],
        "amp: checkpoint drill",
        "not the scaler",
    ),
}


@pytest.mark.parametrize(("edits", "check", "word"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rewrite_fails(verify: Verify, edits: Edits, check: str, word: str) -> None:
    report = verify(BEFORE, edited(AFTER, *edits))
    found = {one.name: one for one in report.checks}
    assert check in failed(report), [one for one in report.checks if one.verdict == "fail"]
    assert word in found[check].message


def test_a_violation_names_file_and_line_of_the_original(verify: Verify) -> None:
    report = verify(BEFORE, edited(AFTER, ("scaler.step(optimizer)", "optimizer.step()")))
    violation = report.runs["amp"].violations[0]
    line = BEFORE.splitlines().index("            optimizer.step()") + 1
    assert (violation.rule, violation.file.endswith("train.py"), violation.line) == (
        "bare-step-after-unscale",
        True,
        line,
    )


def test_overflow_to_inf_is_found(verify: Verify) -> None:
    """Squares of some thousands fit float32 and not float16."""
    huge = (
        "output = model(x.to(device))",
        "output = model(x.to(device)); output = output * 3000; output = output * output / 9e6",
    )
    report = verify(edited(BEFORE, huge), edited(AFTER, huge))
    assert "amp: finite" in failed(report)
    assert "amp-off: losses" not in failed(report)


def test_underflow_of_tiny_gradients_is_found(verify: Verify) -> None:
    """Without a scaler a loss of this size has gradients that float16 rounds to zero."""
    small = (LOSS, LOSS + " * 1e-7")
    unscaled = [
        ("scaler.scale(loss).backward()", "loss.backward()"),
        (UNSCALE, ""),
        ("scaler.step(optimizer)", "optimizer.step()"),
        ("            scaler.update()\n", ""),
        ("enabled=scaler.is_enabled()", 'enabled=device.type == "cuda"'),
        (', "scaler": scaler.state_dict()', ""),
        (SCALER, ""),
    ]
    report = verify(edited(BEFORE, small), edited(AFTER, small, *unscaled))
    assert {"amp: gradients", "amp: gradient scale"} <= failed(report)
    assert "amp-off: losses" not in failed(report)


def test_amp_that_is_never_on_is_found(verify: Verify) -> None:
    report = verify(BEFORE, BEFORE)
    assert failed(report) >= {"amp: engaged"}
