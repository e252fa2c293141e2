"""What `enabled=` asks, read from the program's own device code."""

from __future__ import annotations

import pytest

from tests.migrate.programs import migrate, output, verdicts

AVAILABLE = "torch.cuda.is_available()"


def program(setup: str, moved: str, batch: str = "") -> str:
    """A script whose device code is `setup`, `.moved` on the model, and `batch` in the loop."""
    return (
        f"import torch\n{setup}model = torch.nn.Linear(8, 8){moved}\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"for x in loader:\n{batch}    optimizer.zero_grad()\n"
        "    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n"
    )


SWITCHES = {
    "a device": (f'device = torch.device("cuda" if {AVAILABLE} else "cpu")\n', ".to(device)", 'device.type == "cuda"'),
    "under another name": ('dev = torch.device("cuda:1")\n', ".to(dev)", 'dev.type == "cuda"'),
    "a keyword": (
        f'device = torch.device("cuda" if {AVAILABLE} else "cpu")\n',
        ".to(device=device)",
        'device.type == "cuda"',
    ),
    "a string": (f'device = "cuda" if {AVAILABLE} else "cpu"\n', ".to(device)", 'torch.device(device).type == "cuda"'),
    "a formatted string": ('device = f"cuda:{index}"\n', ".to(device)", 'torch.device(device).type == "cuda"'),
    "an argument": ("args = parse()\n", ".to(args.device)", 'torch.device(args.device).type == "cuda"'),
    "a stored device": (
        "args = parse()\nargs.device = torch.device(args.name)\n",
        ".to(args.device)",
        'args.device.type == "cuda"',
    ),
    "a condition": (
        f'if {AVAILABLE}:\n    device = torch.device("cuda")\nelse:\n    device = torch.device("cpu")\n',
        ".to(device)",
        'device.type == "cuda"',
    ),
}


@pytest.mark.parametrize(("setup", "moved", "enabled"), SWITCHES.values(), ids=SWITCHES)
def test_a_device_by_name(setup: str, moved: str, enabled: str) -> None:
    new = output(program(setup, moved, f"    x = x{moved}\n"))
    assert f'scaler = torch.amp.GradScaler("cuda", enabled={enabled})\n' in new
    assert "enabled=scaler.is_enabled())" in new


UNCONDITIONAL = {
    ".cuda()": ("", ".cuda()"),
    ".to('cuda')": ("", '.to("cuda")'),
    "a rank": ("rank = torch.distributed.get_rank()\n", ".to(rank)"),
    "an index": ("gpu = 1\n", ".cuda(gpu)"),
}


@pytest.mark.parametrize(("setup", "moved"), UNCONDITIONAL.values(), ids=UNCONDITIONAL)
def test_cuda_without_a_condition_is_on(setup: str, moved: str) -> None:
    new = output(program(setup, moved, f"    x = x{moved}\n"))
    assert 'scaler = torch.amp.GradScaler("cuda")\n' in new
    assert 'with torch.autocast("cuda", dtype=torch.float16):\n' in new


FLAGS = {
    "a variable": (f"use_cuda = {AVAILABLE}\n", "use_cuda"),
    "an argument": ("args = parse()\n", "args.cuda"),
    "a set argument": (f"args = parse()\nargs.cuda = args.gpu and {AVAILABLE}\n", "args.cuda"),
}


@pytest.mark.parametrize(("setup", "flag"), FLAGS.values(), ids=FLAGS)
def test_a_flag(setup: str, flag: str) -> None:
    new = output(
        program(setup, "", f"    if {flag}:\n        x = x.cuda()\n").replace(
            "optimizer =", f"if {flag}:\n    model.cuda()\noptimizer ="
        )
    )
    assert f'scaler = torch.amp.GradScaler("cuda", enabled={flag})\n' in new


def test_nothing_nameable_asks_torch() -> None:
    batch = f"    if {AVAILABLE}:\n        x = x.cuda()\n"
    assert f'torch.amp.GradScaler("cuda", enabled={AVAILABLE})' in output(
        program(f"if {AVAILABLE}:\n    print(1)\n", "", batch)
    )


OTHERS = {
    "mps": 'device = torch.device("mps" if torch.backends.mps.is_available() else "cpu")\n',
    "xpu": 'device = torch.device("xpu" if torch.xpu.is_available() else "cpu")\n',
    "any": 'device = torch.accelerator.current_accelerator() or torch.device("cpu")\n',
}


@pytest.mark.parametrize("setup", OTHERS.values(), ids=OTHERS)
def test_programs_that_know_other_accelerators_use_the_devices_type(setup: str) -> None:
    new = output(program(setup, ".to(device)", "    x = x.to(device)\n"))
    assert 'torch.amp.GradScaler(device.type, enabled=device.type != "cpu")' in new
    assert "torch.autocast(device.type, dtype=torch.float16, enabled=scaler.is_enabled())" in new


def test_a_device_set_after_the_optimizer_is_not_asked() -> None:
    late = program("", "").replace(
        "for x in loader", 'device = torch.device("cuda")\nmodel.to(device)\nfor x in loader'
    )
    new = output(late)
    assert "enabled=device" not in new.partition("device = torch.device")[0]


CPU_ONLY = {
    "no device": ("", ""),
    "a dtype": ("", ".to(torch.float32)"),
    "by name": ("", '.to("cpu")'),
}


@pytest.mark.parametrize(("setup", "moved"), CPU_ONLY.values(), ids=CPU_ONLY)
def test_programs_for_the_cpu_are_left_alone(setup: str, moved: str) -> None:
    assert verdicts(program(setup, moved)) == [("skipped", "cpu-only")]


def test_and_migrated_on_request() -> None:
    assert f'torch.amp.GradScaler("cuda", enabled={AVAILABLE})' in output(program("", ""), device="cuda")


def test_bfloat16_evaluates_the_switch_in_the_region() -> None:
    setup = f'device = torch.device("cuda" if {AVAILABLE} else "cpu")\n'
    new = output(program(setup, ".to(device)", "    x = x.to(device)\n"), dtype="bfloat16")
    assert 'with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device.type == "cuda"):' in new


def test_never_a_device_of_a_rank() -> None:
    outcome = migrate(program("rank = torch.distributed.get_rank()\n", ".to(rank)", "    x = x.to(rank)\n"))
    assert outcome.output is not None
    assert "torch.device(rank)" not in outcome.output


def test_an_accelerator_that_may_be_absent() -> None:
    new = output(program("device = torch.accelerator.current_accelerator()\n", ".to(device)"))
    kind = 'device.type if device is not None else "cuda"'
    assert f"scaler = torch.amp.GradScaler({kind}, enabled=device is not None)\n" in new
    assert f"with torch.autocast({kind}, dtype=torch.float16, enabled=scaler.is_enabled()):\n" in new


def test_an_accelerator_with_a_fallback() -> None:
    choice = 'torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")'
    new = output(program(f"device = {choice}\n", ".to(device)"))
    assert 'torch.amp.GradScaler(device.type, enabled=device.type != "cpu")\n' in new
