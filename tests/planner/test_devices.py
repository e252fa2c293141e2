"""Programs that name no device, on the one that `--device` names."""

from __future__ import annotations

import pytest

from amp_migrate.config import Option, Settings
from amp_migrate.pipeline.migrate import migrate_text
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
        ("cuda", "bfloat16", (1, 9), "autocast to bfloat16 knows cuda since torch 1.10"),
        ("cuda", "auto", (1, 6), "autocast to bfloat16 knows cuda since torch 1.10"),
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


MOVED = PROGRAM.replace("nn.Linear(4, 4)", "nn.Linear(4, 4).to({device})").replace(
    "model(x)", "model(x.to({device}))"
)
CHOICE = 'device = torch.device("mps" if torch.backends.mps.is_available() else "cuda")\n'
SETUPS = {
    "a choice": (CHOICE, "device"),
    "a string": ('device = "xpu"\n', "device"),
    "by name": ("", '"mps"'),
    "by name and index": ("", '"xpu:1"'),
    "only mps": ('device = torch.device("mps")\n', "device"),
}


def moved(setup: str) -> str:
    """A program that names its devices."""
    made, device = SETUPS[setup]
    first = "from torch import nn\n"
    return MOVED.replace("{device}", device).replace(first, first + made)


@pytest.mark.parametrize(
    ("setup", "options", "scaler", "region"),
    [
        ("a choice", {}, 'device.type, enabled=device.type != "cpu"', "device.type"),
        ("a choice", {"target_torch": (2, 8)}, "device.type, ", "device.type"),
        ("a choice", {"target_torch": (2, 6)}, '"cuda", enabled=device.type == "cuda"', '"cuda"'),
        ("a string", {"target_torch": (2, 4)}, 'device, enabled=device != "cpu"', "device"),
        ("by name", {}, '"mps")', '"mps"'),
        ("by name and index", {}, '"xpu")', '"xpu"'),
    ],
)
def test_a_device_of_the_programs_own(
    setup: str, options: dict[str, tuple[int, int]], scaler: str, region: str
) -> None:
    new = output(moved(setup), **options)
    assert f"scaler = torch.amp.GradScaler({scaler}" in new
    assert f"with torch.autocast({region}, dtype=" in new


def test_a_choice_with_a_torch_that_knows_cuda_alone() -> None:
    new = output(moved("a choice"), target_torch=(2, 0), dtype="auto")
    assert 'use_amp = device.type == "cuda"\n' in new
    assert "torch.cuda.amp.autocast(dtype=amp_dtype, enabled=use_amp)" in new


@pytest.mark.parametrize(
    ("setup", "options", "why"),
    [
        ("only mps", {"target_torch": (2, 6)}, "GradScaler knows mps since torch 2.8"),
        ("by name", {"target_torch": (2, 4)}, "autocast knows mps since torch 2.5"),
        ("a string", {"target_torch": (2, 0)}, "GradScaler knows xpu since torch 2.3"),
    ],
)
def test_the_only_device_of_a_program_is_not_known(
    setup: str, options: dict[str, tuple[int, int]], why: str
) -> None:
    outcome = migrate(moved(setup), **options)
    assert outcome.output is None
    assert why in str(outcome.loops[0].message)


@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_a_program_that_names_the_cpu_stays_there(device: str) -> None:
    source = MOVED.replace("{device}", "device").replace(
        "model =", 'device = torch.device("cpu")\nmodel =', 1
    )
    assert [loop.reason for loop in migrate(source, device=device).loops] == ["cpu-only"]
    assert 'autocast("cpu", dtype=' in output(source, device="cpu", dtype="bfloat16")


def test_weights_that_are_saved_from_the_cpu_say_nothing() -> None:
    saved = f'{PROGRAM}torch.save(model.to("cpu").state_dict(), "weights.pt")\n'
    assert 'GradScaler("cuda"' in output(saved, device="cuda")


CUSTOM = """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.t() @ x


"""
DISTANCES = """
def distances(x, y):
    squares = (x**2).sum(1).view(-1, 1) + (y**2).sum(1).view(1, -1)
    near = squares - 2.0 * torch.mm(x, y.t())
    return torch.clamp(near, 0.0, 100.0)


"""


@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_what_keeps_float32_names_the_device(device: str) -> None:
    source = PROGRAM.replace("\nmodel =", f"{CUSTOM}model =").replace(
        "model(x), y", "Scaled.apply(model(x), w), y"
    )
    assert f'custom_bwd(device_type="{device}")' in output(source, device=device)
    island = PROGRAM.replace("\nmodel =", f"{DISTANCES}model =").replace(
        "nn.functional.mse_loss(model(x), y)", "distances(y, model(x)).mean()"
    )
    assert f'with torch.autocast("{device}", enabled=False):' in output(island, device=device)


def test_a_switch_is_none_for_the_cpu() -> None:
    asked = Settings(device="cpu", dtype="auto", switch=Option("amp", "bfloat16"))
    (loop,) = migrate_text(PROGRAM, "a.py", asked).loops
    assert "--switch would choose among others" in str(loop.message)


@pytest.mark.parametrize(
    ("made", "entered"),
    [
        ('"cuda" if torch.cuda.is_available() else "cpu"', "torch.device(device)"),
        ('torch.device("cuda" if torch.cuda.is_available() else "cpu")', "device"),
    ],
)
def test_what_is_made_in_the_block_of_a_device_is_there(made: str, entered: str) -> None:
    new = output(_entering(made, entered))
    assert 'enabled=next(model.parameters()).device.type == "cuda")\n' in new


def test_what_is_made_in_the_block_of_the_cpu_stays() -> None:
    plain = _entering('"cpu"', "torch.device(device)")
    assert [loop.reason for loop in migrate(plain).loops] == ["cpu-only"]


def _entering(made: str, entered: str) -> str:
    head, rest = PROGRAM.split("model = ")
    body = "model = " + rest
    block = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{head}device = {made}\nwith {entered}:\n{block}"
