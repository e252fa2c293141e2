"""Programs that name no device, on the one that `--device` names."""

from __future__ import annotations

import pytest

from tests.planner.programs import migrate, output, text

PROGRAM = text(
    """
    import torch
    from torch import nn

    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    """
)


@pytest.mark.parametrize(
    ("device", "asked"),
    [
        ("cuda", "torch.cuda.is_available()"),
        ("xpu", "torch.xpu.is_available()"),
        ("mps", "torch.backends.mps.is_available()"),
    ],
)
def test_the_device_and_its_own_question(device: str, asked: str) -> None:
    new = output(PROGRAM, device=device)
    assert f'scaler = torch.amp.GradScaler("{device}", enabled={asked})\n' in new
    assert f'with torch.autocast("{device}", dtype=torch.float16, enabled=scaler' in new


@pytest.mark.parametrize(
    ("device", "dtype"),
    [(None, "float16"), (None, "bfloat16"), ("cpu", "float16"), ("cpu", "auto")],
)
def test_the_cpu_gains_nothing(device: str | None, dtype: str) -> None:
    outcome = migrate(PROGRAM, device=device, dtype=dtype)
    assert outcome.output is None
    assert [loop.reason for loop in outcome.loops] == ["cpu-only"]


def test_bfloat16_on_the_cpu_when_it_is_asked_for() -> None:
    new = output(PROGRAM, device="cpu", dtype="bfloat16")
    assert 'with torch.autocast("cpu", dtype=torch.bfloat16):' in new
    assert "GradScaler" not in new
    old = output(PROGRAM, device="cpu", dtype="bfloat16", target_torch=(1, 10))
    assert 'with torch.autocast("cpu", dtype=torch.bfloat16):' in old


@pytest.mark.parametrize(
    ("device", "dtype", "oldest", "why"),
    [
        ("mps", "float16", (2, 4), "autocast knows mps since torch 2.5"),
        ("mps", "float16", (2, 5), "GradScaler knows mps since torch 2.8"),
        ("mps", "bfloat16", (2, 5), "autocast to bfloat16 knows mps since torch 2.6"),
        ("mps", "auto", None, "nothing tells whether mps computes bfloat16: name the dtype"),
        ("xpu", "float16", (2, 2), "GradScaler knows xpu since torch 2.3"),
        ("xpu", "bfloat16", (1, 13), "autocast knows xpu since torch 2.0"),
        ("xpu", "auto", (2, 6), "is_bf16_supported knows xpu since torch 2.10"),
        ("cpu", "bfloat16", (1, 9), "autocast knows cpu since torch 1.10"),
    ],
)
def test_a_torch_without_what_it_takes(
    device: str, dtype: str, oldest: tuple[int, int] | None, why: str
) -> None:
    outcome = migrate(PROGRAM, device=device, dtype=dtype, target_torch=oldest)
    assert outcome.output is None
    assert why in str(outcome.loops[0].message)


@pytest.mark.parametrize(
    ("device", "dtype", "oldest"),
    [
        ("mps", "float16", (2, 8)),
        ("mps", "bfloat16", (2, 6)),
        ("xpu", "float16", (2, 3)),
        ("xpu", "bfloat16", (2, 0)),
        ("xpu", "auto", (2, 10)),
    ],
)
def test_the_oldest_torch_that_has_it(device: str, dtype: str, oldest: tuple[int, int]) -> None:
    new = output(PROGRAM, device=device, dtype=dtype, target_torch=oldest)
    assert f'torch.autocast("{device}", dtype=' in new
    assert "torch.cuda" not in new
    assert (f'torch.amp.GradScaler("{device}"' in new) is (dtype != "bfloat16")


def test_bfloat16_on_the_cpu_trains() -> None:
    torch = pytest.importorskip("torch")
    loader = [(torch.randn(8, 4), torch.randn(8, 4)) for _ in range(3)]
    found = {"loader": loader}
    exec(compile(output(PROGRAM, device="cpu", dtype="bfloat16"), "cpu", "exec"), found)
    assert torch.isfinite(found["loss"])
    assert found["model"].weight.dtype is torch.float32


def test_auto_asks_the_device_that_is_used() -> None:
    new = output(PROGRAM, device="xpu", dtype="auto")
    assert "use_amp = torch.xpu.is_available()" in new
    assert "torch.xpu.is_bf16_supported(including_emulation=False)" in new


def test_auto_asks_for_bfloat16_without_emulation() -> None:
    new = output(PROGRAM, device="cuda", dtype="auto")
    assert "torch.cuda.is_bf16_supported(including_emulation=False)" in new
    old = output(PROGRAM, device="cuda", dtype="auto", target_torch=(2, 0))
    assert "torch.cuda.get_device_capability() >= (8, 0)" in old
