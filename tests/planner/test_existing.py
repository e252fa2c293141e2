"""AMP that is there already: old spellings, and the proof that they are only spellings."""

from __future__ import annotations

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.existing_amp import REPAIRS, SPELLINGS
from amp_migrate.pipeline.migrate import migrate_text
from amp_migrate.rewrite.proof.respelling import same_amp

OLD = """\
import torch
from torch.cuda.amp import GradScaler, autocast, custom_bwd, custom_fwd


class Double(torch.autograd.Function):
    @staticmethod
    @custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @custom_bwd
    def backward(ctx, grad):
        return 2 * grad


scaler = GradScaler(2.0**10, enabled=True)
for x in loader:
    optimizer.zero_grad()
    with autocast(True):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
NEW = """\
import torch
from torch.amp import GradScaler, autocast, custom_bwd, custom_fwd


class Double(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        return 2 * grad


scaler = GradScaler("cuda", init_scale=2.0**10, enabled=True)
for x in loader:
    optimizer.zero_grad()
    with autocast("cuda", dtype=torch.float16, enabled=True):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_old_names_become_those_of_torch_amp() -> None:
    outcome = migrate_text(OLD, "train.py", Settings(target_torch=(2, 4)))
    assert outcome.output == NEW
    assert outcome.status == "migrated"
    assert [loop.status for loop in outcome.loops] == ["skipped"]
    assert all("deprecated-cuda-amp" in note.message for note in outcome.notes)


def test_a_second_run_finds_nothing() -> None:
    assert migrate_text(NEW, "train.py", Settings(target_torch=(2, 4))).output is None


def test_a_project_that_does_not_say_its_torch_keeps_them() -> None:
    assert migrate_text(OLD, "train.py", Settings()).output is None


def test_a_project_that_supports_older_torch_keeps_them() -> None:
    assert migrate_text(OLD, "train.py", Settings(target_torch=(2, 0))).output is None


def test_a_shim_stays() -> None:
    shim = OLD.replace(
        "from torch.cuda.amp import GradScaler, autocast, custom_bwd, custom_fwd",
        (
            "try:\n    from torch.cuda.amp import GradScaler, autocast, custom_bwd, "
            "custom_fwd\nexcept ImportError:\n    autocast = None"
        ),
    )
    assert migrate_text(shim, "train.py", Settings(target_torch=(2, 4))).output is None


def test_ignored_rules_mend_nothing() -> None:
    settings = Settings(ignore=(*SPELLINGS, *REPAIRS), target_torch=(2, 4))
    assert migrate_text(OLD, "train.py", settings).output is None


def test_the_proof_accepts_the_new_names() -> None:
    assert same_amp(OLD, NEW)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("enabled=True):", "enabled=False):"),
        ("torch.float16", "torch.bfloat16"),
        ("init_scale=2.0**10", "growth_factor=2.0**10"),
        (", enabled=True)\nfor", ")\nfor"),
        ('custom_bwd(device_type="cuda")', 'custom_bwd(device_type="cpu")'),
        (", cast_inputs=torch.float32", ""),
        ('autocast("cuda"', 'autocast("cpu"'),
        ("    scaler.update()\n", ""),
        ("loss = model(x).mean()", "loss = model(x).sum()"),
    ],
)
def test_the_proof_finds_a_slip(right: str, wrong: str) -> None:
    assert right in NEW
    assert not same_amp(OLD, NEW.replace(right, wrong))
