"""AMP that was begun: what is missing is added, by the planner or by the lint's fixes; whole AMP
is left alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text
from tests.planner.programs import HEAD, LOOP, SCALER, body, migrate, script, text, verdict

STEP = "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n"
FORWARD = "out = model(x)\nloss = criterion(out, y)\n"
WHOLE = (
    "with torch.autocast('cuda', dtype=torch.float16, enabled=scaler.is_enabled()):\n    "
    f"loss = criterion(model(x), y)\n{STEP}"
)


def test_a_scaler_gets_its_autocast() -> None:
    new = body(FORWARD + STEP, before=SCALER)
    assert new == text("WITH:\n    out = model(x)\n    loss = criterion(out, y)\n") + STEP


def test_the_loop_says_what_was_completed() -> None:
    (loop,) = migrate(script(FORWARD + STEP, before=SCALER)).loops
    assert (loop.status, loop.message) == (
        "migrated",
        "AMP completed: forward and loss under autocast",
    )


def test_a_scaler_without_a_switch() -> None:
    new = body(FORWARD + STEP, before="scaler = torch.amp.GradScaler('cuda')\n")
    assert "enabled=scaler.is_enabled()" in new


def test_values_that_leave_are_cast_as_ever() -> None:
    new = body(f"{FORWARD}{STEP}second = other(out)\n", before=SCALER)
    assert "second = other(out.float())" in new


def test_torch_is_imported_for_it() -> None:
    source = (
        "from torch.amp import GradScaler\nfrom torch import nn\nfrom torch.optim import "
        "SGD\nmodel = nn.Linear(2, 2).cuda()\n"
        "optimizer = SGD(model.parameters(), lr=0.1)\nscaler = GradScaler('cuda')\nfor x in data:\n"
        "    optimizer.zero_grad()\n    loss = model(x.cuda()).pow(2).mean()\n    "
        "scaler.scale(loss).backward()\n"
        "    scaler.step(optimizer)\n    scaler.update()\n"
    )
    outcome = migrate(source)
    assert outcome.output is not None, outcome.error
    assert "import torch\n" in outcome.output


LEFT = {
    "whole": (WHOLE, SCALER),
    "whole, by a decorator elsewhere": (
        FORWARD + STEP,
        SCALER
        + (
            "class Net(nn.Module):\n    @torch.autocast('cuda')\n    def forward(self, x):\n       "
            " return x\n"
        ),
    ),
    "one loss of two": (FORWARD + "loss.backward(retain_graph=True)\n" + STEP, SCALER),
    "a scaler of another device": (FORWARD + STEP, "scaler = torch.amp.GradScaler('cpu')\n"),
    "a scaler of another kind": (
        FORWARD + STEP,
        "from sklearn.preprocessing import StandardScaler as S\nscaler = S()\n",
    ),
    "a loss in the receiver": (STEP.replace("loss", "criterion(model(x), y)"), SCALER),
}


@pytest.mark.parametrize(("loop", "before"), LEFT.values(), ids=LEFT)
def test_no_autocast_is_added(loop: str, before: str) -> None:
    outcome = migrate(script(loop, before=before))
    assert "with torch.autocast" not in (outcome.output or "").replace(WHOLE.partition("\n")[0], "")


def test_bfloat16_has_no_use_for_a_scaler() -> None:
    assert verdict(FORWARD + STEP, before=SCALER, dtype="bfloat16") == ("skipped", "already-amp")


def test_autocast_in_an_imported_model(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    @torch.autocast('cuda')\n    def "
        "forward(self, x):\n        return x\n"
    )
    source = "from nets import Net\n" + script(
        FORWARD + STEP, before=SCALER + "model = Net().to(device)\n"
    )
    outcome = migrate_text(source, str(tmp_path / "program.py"), Settings())
    assert outcome.output is None


def test_whole_amp_is_skipped() -> None:
    assert verdict(WHOLE, before=SCALER) == ("skipped", "already-amp")


COMPLETED = {
    "a scaler": (
        WHOLE.replace(STEP, "loss.backward()\noptimizer.step()\n").replace(
            "scaler.is_enabled()", "True"
        ),
        "",
        "scaler.scale(loss)",
    ),
    "a step": (
        WHOLE.replace("scaler.step(optimizer)\nscaler.update()", "optimizer.step()"),
        SCALER,
        "scaler.step(optimizer)",
    ),
    "an update": (WHOLE.replace("scaler.update()\n", ""), SCALER, "scaler.update()"),
    "unscale_": (
        WHOLE.replace(
            "scaler.step", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nscaler.step"
        ),
        SCALER,
        "scaler.unscale_(optimizer)",
    ),
}


@pytest.mark.parametrize(("loop", "before", "added"), COMPLETED.values(), ids=COMPLETED)
def test_the_lint_s_fixes_complete_it(loop: str, before: str, added: str) -> None:
    outcome = migrate(script(loop, before=before))
    assert outcome.output is not None
    assert added in outcome.output
    (only,) = outcome.loops
    assert only.status == "migrated"
    assert (only.message or "").startswith("AMP completed: ")
    assert outcome.notes


def test_ignored_findings_stay() -> None:
    source = script(WHOLE.replace("scaler.update()\n", ""), before=SCALER)
    assert migrate(source, ignore=("missing-scaler-update",)).output is None


def test_the_scaler_s_state_joins_the_checkpoint() -> None:
    saved = "torch.save({'optimizer': optimizer.state_dict()}, 'x.pt')\n"
    outcome = migrate(
        f"{HEAD}{SCALER}{LOOP}{'    ' + WHOLE.replace(chr(10), chr(10) + '    ').rstrip(' ')}{saved}"
    )
    assert outcome.output is not None
    assert "scaler.state_dict()" in outcome.output
