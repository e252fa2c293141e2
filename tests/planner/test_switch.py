"""What `enabled=` asks, read from the program's own device code."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.whole_program import rewrite_program
from tests.planner.programs import migrate, output, verdicts

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
    "a device": (
        f'device = torch.device("cuda" if {AVAILABLE} else "cpu")\n',
        ".to(device)",
        'device.type == "cuda"',
    ),
    "under another name": ('dev = torch.device("cuda:1")\n', ".to(dev)", 'dev.type == "cuda"'),
    "a keyword": (
        f'device = torch.device("cuda" if {AVAILABLE} else "cpu")\n',
        ".to(device=device)",
        'device.type == "cuda"',
    ),
    "a string": (
        f'device = "cuda" if {AVAILABLE} else "cpu"\n',
        ".to(device)",
        'device == "cuda"',
    ),
    "a string in two arms": (
        f'if {AVAILABLE}:\n    device = "cuda"\nelse:\n    device = "cpu"\n',
        ".to(device)",
        'device == "cuda"',
    ),
    "a string with an index": (
        f'device = f"cuda:{{index}}" if {AVAILABLE} else "cpu"\n',
        ".to(device)",
        'device != "cpu"',
    ),
    "an option": (
        (
            "import argparse\nparser = argparse.ArgumentParser()\n"
            'parser.add_argument("--device", default="cuda")\nargs = parser.parse_args()\n'
        ),
        ".to(args.device)",
        'args.device != "cpu"',
    ),
    "an option with choices": (
        (
            "import argparse\nparser = argparse.ArgumentParser()\n"
            'parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")\n'
            "args = parser.parse_args()\n"
        ),
        ".to(args.device)",
        'args.device == "cuda"',
    ),
    "the definition that reaches": (
        (
            f'for device in ["cpu", "cuda"]:\n    print(device)\n'
            f'device = torch.device("cuda" if {AVAILABLE} else "cpu")\n'
        ),
        ".to(device)",
        'device.type == "cuda"',
    ),
    "not the device of data": (
        (
            f'device = torch.device("cuda" if {AVAILABLE} else "cpu")\n'
            "args = parse()\ngraph = graph.to(args.storage_device)\n"
        ),
        ".to(device)",
        'device.type == "cuda"',
    ),
    "an argument": (
        "args = parse()\n",
        ".to(args.device)",
        'torch.device(args.device).type == "cuda"',
    ),
    "a stored device": (
        "args = parse()\nargs.device = torch.device(args.name)\n",
        ".to(args.device)",
        'args.device.type == "cuda"',
    ),
    "a condition": (
        (
            f'if {AVAILABLE}:\n    device = torch.device("cuda")\nelse:\n    device = '
            'torch.device("cpu")\n'
        ),
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
    "a string without a choice": ('device = "cuda"\n', ".to(device)"),
    "a formatted string": ('device = f"cuda:{index}"\n', ".to(device)"),
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
    "an argument": ("args = parse()\nargs.cuda = not args.cpu\n", "args.cuda"),
    "a set argument": (
        f"args = parse()\nargs.cuda = bool(args.gpu) and {AVAILABLE}\n",
        "args.cuda",
    ),
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


def test_a_string_of_another_accelerator_is_the_type() -> None:
    setup = 'device = "xpu" if torch.xpu.is_available() else "cpu"\n'
    new = output(program(setup, ".to(device)", "    x = x.to(device)\n"))
    assert 'torch.amp.GradScaler(device, enabled=device != "cpu")' in new
    assert "torch.autocast(device, dtype=torch.float16, enabled=scaler.is_enabled())" in new


TRAIN = (
    "import torch\nimport contextlib\ndef train(model, loader, optimizer):\n    for x in loader:\n"
    "        optimizer.zero_grad()\n        loss = model(x.cuda()).mean()\n"
    "        loss.backward()\n        optimizer.step()\n"
)
STARTED = (
    "model = torch.nn.Linear(8, 8).cuda()\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
)
CONTEXTS = {
    "written there": ("", "torch.autocast('cuda')"),
    "a variable": ("amp = torch.autocast('cuda')\n", "amp"),
    "a choice": ("amp = torch.autocast('cuda') if c else contextlib.nullcontext()\n", "amp"),
    "a table": ("amp = {True: torch.autocast('cuda')}\n", "amp[True]"),
    "a function": ("def amp():\n    return torch.autocast('cuda')\n", "amp()"),
    "a function that a variable holds": (
        "def make():\n    return torch.autocast('cuda')\namp = make()\n",
        "amp",
    ),
}


@pytest.mark.parametrize(("setup", "context"), CONTEXTS.values(), ids=CONTEXTS)
def test_a_callers_own_autocast_is_amp_already(setup: str, context: str) -> None:
    source = f"{TRAIN}{setup}{STARTED}with {context}:\n    train(model, loader, optimizer)\n"
    assert verdicts(source) == [("skipped", "already-amp")]


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
    "by a variable": ('device = torch.device("cpu")\n', ".to(device)"),
    "by a string": ('device = "cpu"\n', ".to(device)"),
    "a device that is only printed": (
        f'device = torch.device("cuda" if {AVAILABLE} else "cpu")\nprint(device)\n',
        "",
    ),
    "a device that is only told": (
        f'device = "cuda" if {AVAILABLE} else "cpu"\nprint(f"running on {{device}}")\n',
        "",
    ),
}


@pytest.mark.parametrize(("setup", "moved"), CPU_ONLY.values(), ids=CPU_ONLY)
def test_programs_for_the_cpu_are_left_alone(setup: str, moved: str) -> None:
    assert verdicts(program(setup, moved)) == [("skipped", "cpu-only")]


def test_and_migrated_on_request() -> None:
    assert f'torch.amp.GradScaler("cuda", enabled={AVAILABLE})' in output(
        program("", ""), device="cuda"
    )


def test_bfloat16_evaluates_the_switch_in_the_region() -> None:
    setup = f'device = torch.device("cuda" if {AVAILABLE} else "cpu")\n'
    new = output(program(setup, ".to(device)", "    x = x.to(device)\n"), dtype="bfloat16")
    assert (
        'with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device.type == "cuda"):' in new
    )


BASE = "class Engine:\n    def __init__(self, c):\n        self.device = torch.device(c.name)\n"
HEIR = """class MF(Engine):
    def __init__(self, c):
        self.model = torch.nn.Linear(8, 8)
{before}        self.optimizer = torch.optim.Adam(self.model.parameters())
{after}        self.model.to(self.device)

    def train(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).mean()
        loss.backward()
        self.optimizer.step()
"""
SUPER = "        super().__init__(c)\n"


def test_a_device_that_a_base_class_sets_later_is_asked_behind_that() -> None:
    new = output(f"import torch\n{BASE}{HEIR.format(before='', after=SUPER)}")
    made = 'self.scaler = torch.amp.GradScaler("cuda", enabled=self.device.type == "cuda")'
    assert f"super().__init__(c)\n        {made}\n" in new


def test_a_device_that_a_base_class_has_set_is_asked() -> None:
    new = output(f"import torch\n{BASE}{HEIR.format(before=SUPER, after='')}")
    assert 'self.scaler = torch.amp.GradScaler("cuda", enabled=self.device.type == "cuda")' in new


def test_a_global_of_main_is_not_asked() -> None:
    source = (
        "import torch\n"
        "def build(model):\n    return torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "def train(x):\n    model = torch.nn.Linear(8, 8).to(x.device)\n"
        "    optimizer = build(model)\n    optimizer.zero_grad()\n    loss = model(x).mean()\n"
        "    loss.backward()\n    optimizer.step()\n"
        'if __name__ == "__main__":\n    device = torch.device("cuda")\n'
        "    train(torch.ones(8).to(device))\n"
    )
    assert "enabled=device" not in output(source)


def test_the_projects_own_switch() -> None:
    source = program(
        "args = parse()\nuse_amp = args.amp\n"
        "def warm(x):\n    with torch.autocast('cuda', enabled=use_amp):\n        f(x)\n",
        ".cuda()",
        "    x = x.cuda()\n",
    )
    assert 'scaler = torch.amp.GradScaler("cuda", enabled=use_amp)\n' in output(source)


RANKS = {
    "spawned": ("torch.multiprocessing.spawn(main, args=(loader,), nprocs=2)\n", "rank"),
    "by the environment": ("import os\nmain(int(os.environ['LOCAL_RANK']), loader)\n", "gpu"),
}


@pytest.mark.parametrize(("start", "name"), RANKS.values(), ids=RANKS)
def test_a_rank_that_a_function_is_given(start: str, name: str) -> None:
    source = (
        f"import torch\ndef main({name}, loader):\n"
        f"    model = torch.nn.Linear(8, 8).to({name})\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"    for x in loader:\n        x = x.to({name})\n        optimizer.zero_grad()\n"
        "        loss = model(x).mean()\n        loss.backward()\n        optimizer.step()\n"
    )
    assert 'scaler = torch.amp.GradScaler("cuda")\n' in output(source + start)


def test_never_a_device_of_a_rank() -> None:
    outcome = migrate(
        program("rank = torch.distributed.get_rank()\n", ".to(rank)", "    x = x.to(rank)\n")
    )
    assert outcome.output is not None
    assert "torch.device(rank)" not in outcome.output


def test_an_accelerator_that_may_be_absent() -> None:
    new = output(program("device = torch.accelerator.current_accelerator()\n", ".to(device)"))
    kind = 'device.type if device is not None else "cuda"'
    assert f"scaler = torch.amp.GradScaler({kind}, enabled=device is not None)\n" in new
    assert (
        f"with torch.autocast({kind}, dtype=torch.float16, enabled=scaler.is_enabled()):\n" in new
    )


def test_an_accelerator_with_a_fallback() -> None:
    choice = (
        "torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "
        'torch.device("cpu")'
    )
    new = output(program(f"device = {choice}\n", ".to(device)"))
    assert 'torch.amp.GradScaler(device.type, enabled=device.type != "cpu")\n' in new


def test_a_default_that_is_replaced_where_nothing_was_given() -> None:
    source = (
        "import torch\nclass Runner:\n    def __init__(self, device=None):\n"
        "        if device is None:\n"
        f'            device = torch.device("cuda" if {AVAILABLE} else "cpu")\n'
        "        self.device = device\n    def train(self):\n"
        "        model = torch.nn.Linear(8, 8).to(self.device)\n"
        "        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "        for x in loader:\n            optimizer.zero_grad()\n"
        "            loss = model(x.to(self.device)).mean()\n            loss.backward()\n"
        "            optimizer.step()\nRunner().train()\n"
    )
    assert 'torch.amp.GradScaler("cuda", enabled=self.device.type == "cuda")' in output(source)
    kept = source.replace("device is None", "wanted")
    assert "self.device is not None" in output(kept)


def test_what_a_file_that_asks_nothing_moves_for_itself_is_not_asked(tmp_path: Path) -> None:
    files = {
        "memory.py": "import torch\nclass Drawn:\n    def __init__(self):\n"
        "        self.drawn = torch.ones(4)\n    def cuda(self):\n"
        "        self.drawn = self.drawn.cuda()\n"
        "class Memory(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.drawn = Drawn()\n        self.drawn.cuda()\n"
        "    def forward(self, x):\n        return (x * self.drawn.drawn).mean()\n",
        "loops.py": "import torch\ndef train(x, everything, losses, optimizer):\n"
        f"    if {AVAILABLE}:\n        x = x.cuda()\n"
        "    optimizer.zero_grad()\n    loss = losses[0](everything[0](x))\n"
        "    loss.backward()\n    optimizer.step()\n",
        "main.py": "import sys\nimport torch\nfrom loops import train\nfrom memory import Memory\n"
        "def main(loader):\n    model = torch.nn.Linear(4, 4)\n"
        "    everything = torch.nn.ModuleList([])\n    everything.append(model)\n"
        "    trained = torch.nn.ModuleList([])\n    trained.append(model)\n"
        '    if "memory" in sys.argv:\n        loss_of = Memory()\n'
        "        trained.append(loss_of)\n    else:\n        loss_of = torch.nn.L1Loss()\n"
        "    losses = torch.nn.ModuleList([])\n    losses.append(loss_of)\n"
        "    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)\n"
        f"    if {AVAILABLE}:\n        everything.cuda()\n        losses.cuda()\n"
        "    for x in loader:\n        train(x, everything, losses, optimizer)\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in files]
    after = rewrite_program(paths, Settings())[tmp_path / "main.py"].after or b""
    assert f'GradScaler("cuda", enabled={AVAILABLE})' in after.decode()


THERE = {
    "asked in a branch": (
        "if torch.accelerator.is_available():\n    device = torch.accelerator.current_accelerator()\n"
        'else:\n    device = torch.device("cpu")\n'
    ),
    "and wanted": (
        "if wanted and torch.accelerator.is_available():\n"
        "    device = torch.accelerator.current_accelerator()\n"
        'else:\n    device = torch.device("cpu")\n'
    ),
    "asked before": (
        "use_accel = not refused and torch.accelerator.is_available()\nif use_accel:\n"
        "    device = torch.accelerator.current_accelerator()\n"
        'else:\n    device = torch.device("cpu")\n'
    ),
    "else the run ends": (
        "import sys\nif not torch.accelerator.is_available():\n    sys.exit(1)\nelse:\n"
        "    device = torch.accelerator.current_accelerator()\n"
    ),
}


@pytest.mark.parametrize("setup", THERE.values(), ids=THERE)
def test_an_accelerator_that_was_asked_for_is_there(setup: str) -> None:
    new = output(program(setup, ".to(device)"))
    assert 'torch.amp.GradScaler(device.type, enabled=device.type != "cpu")\n' in new


PERHAPS = {
    "only wanted": "if wanted:\n    device = torch.accelerator.current_accelerator()\n"
    'else:\n    device = torch.device("cpu")\n',
    "or wanted": "if wanted or torch.accelerator.is_available():\n"
    '    device = torch.accelerator.current_accelerator()\nelse:\n    device = torch.device("cpu")\n',
    "in the other arm": "if torch.accelerator.is_available():\n"
    '    device = torch.device("cuda")\nelse:\n    device = torch.accelerator.current_accelerator()\n',
}


@pytest.mark.parametrize("setup", PERHAPS.values(), ids=PERHAPS)
def test_an_accelerator_that_was_not_asked_for_may_be_absent(setup: str) -> None:
    assert "device is not None" in output(program(setup, ".to(device)"))


SURE = {
    "both arms move it": "if count > 1:\n    model = wrap(model)\n    model = model.cuda()\n"
    "else:\n    model = model.cuda()\n",
    "one moves it, the others raise": "if gpu is not None:\n    model.cuda(gpu)\n"
    'elif count > 1:\n    raise ValueError\nelse:\n    print("no GPU")\n    exit(1)\n',
    "a branch within a branch": "if count > 1:\n    if gpu is None:\n        model.cuda()\n"
    "    else:\n        model.cuda(gpu)\nelse:\n    model = wrap(model).cuda()\n",
    "a GPU is demanded": f"assert {AVAILABLE}\nmodel.cuda()\n",
    "or the run ends": f"import sys\nif not {AVAILABLE}:\n    sys.exit(1)\nmodel.cuda()\n",
}


@pytest.mark.parametrize("setup", SURE.values(), ids=SURE)
def test_ways_that_all_lead_to_a_gpu_are_no_condition(setup: str) -> None:
    source = program("", "").replace("optimizer =", setup + "optimizer =", 1)
    assert 'scaler = torch.amp.GradScaler("cuda")\n' in output(source)


UNSURE = {
    "an arm that moves nothing": "if count > 1:\n    model.cuda()\nelse:\n    model.eval()\n",
    "no other arm": "if use_cuda:\n    model.cuda()\n",
    "other arms raise, but there is none": "if use_cuda:\n    model.cuda()\n"
    "elif use_mps:\n    raise ValueError\n",
    "another model is moved": "if use_cuda:\n    model.cuda()\nelse:\n    other.cuda()\n",
    "it is asked, and goes on": f'if not {AVAILABLE}:\n    print("slow")\n'
    f"if {AVAILABLE}:\n    model.cuda()\n",
}


@pytest.mark.parametrize("setup", UNSURE.values(), ids=UNSURE)
def test_ways_that_lead_elsewhere_are_asked(setup: str) -> None:
    source = program("use_cuda = use_mps = count = 1\n", "")
    source = source.replace("optimizer =", setup + "optimizer =", 1)
    assert 'GradScaler("cuda", enabled=' in output(source)
