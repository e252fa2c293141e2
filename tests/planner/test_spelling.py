"""The AMP names of each torch generation, under the module's own name for torch."""

from __future__ import annotations

import textwrap

import pytest

from tests.planner.programs import migrate, output


def program(imports: str, torch: str) -> str:
    """A script that says `torch` in its own way."""
    prefix = f"{torch}." if torch else ""
    return (
        f"{imports}\ndevice = {prefix}device('cuda' if {prefix}cuda.is_available() else 'cpu')\n"
        f"model = {prefix}nn.Linear(8, 8).to(device)\noptimizer = "
        f"{prefix}optim.SGD(model.parameters(), lr=0.1)\n"
        "for x in loader:\n    optimizer.zero_grad()\n"
        "    loss = model(x.to(device)).mean()\n    loss.backward()\n    optimizer.step()\n"
    )


NAMES = {
    "import torch": ("import torch", "torch"),
    "import torch as th": ("import torch as th", "th"),
    "import torch.nn": ("import torch.nn", "torch"),
    "both": ("import torch\nimport torch.nn as nn", "torch"),
}


@pytest.mark.parametrize(("imports", "name"), NAMES.values(), ids=NAMES)
def test_the_files_own_name(imports: str, name: str) -> None:
    new = output(program(imports, name))
    assert f'scaler = {name}.amp.GradScaler("cuda", enabled=device.type == "cuda")' in new
    assert (
        f'with {name}.autocast("cuda", dtype={name}.float16, enabled=scaler.is_enabled()):' in new
    )
    assert new.startswith(f"{imports}\ndevice")


FROM = {
    "one line": "from torch import nn, optim, device, cuda",
    "several": "from torch import nn, optim\nfrom torch import device, cuda",
    "among others": "import os\nfrom torch import nn, optim, device, cuda\nimport sys",
}


@pytest.mark.parametrize("imports", FROM.values(), ids=FROM)
def test_torch_is_imported_where_only_parts_are(imports: str) -> None:
    source = (
        program(imports, "")
        .replace("device = device(", "where = device(")
        .replace(".to(device)", ".to(where)")
    )
    new = output(source)
    assert new.count("\nimport torch\n") + new.startswith("import torch\n") == 1
    assert new.index("import torch\n") < new.index("where = ")
    assert 'torch.amp.GradScaler("cuda", enabled=where.type == "cuda")' in new


OLD = {
    (2, 0): (
        "torch.cuda.amp.GradScaler(enabled=",
        "torch.cuda.amp.autocast(enabled=scaler.is_enabled())",
    ),
    (2, 3): (
        "torch.cuda.amp.GradScaler(enabled=",
        "torch.cuda.amp.autocast(enabled=scaler.is_enabled())",
    ),
    (1, 6): (
        "torch.cuda.amp.GradScaler(enabled=",
        "torch.cuda.amp.autocast(enabled=scaler.is_enabled())",
    ),
    (2, 4): (
        'torch.amp.GradScaler("cuda", enabled=',
        'torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled())',
    ),
    (2, 10): (
        'torch.amp.GradScaler("cuda", enabled=',
        'torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled())',
    ),
}


@pytest.mark.parametrize(("version", "expected"), OLD.items(), ids=str)
def test_generations(version: tuple[int, int], expected: tuple[str, str]) -> None:
    new = output(program("import torch", "torch"), target_torch=version)
    assert all(text in new for text in expected)


def test_older_bfloat16() -> None:
    new = output(program("import torch", "torch"), target_torch=(2, 0), dtype="bfloat16")
    assert (
        'with torch.cuda.amp.autocast(dtype=torch.bfloat16, enabled=device.type == "cuda"):' in new
    )


def test_auto_chooses_where_the_scaler_is_made() -> None:
    new = output(program("import torch as th", "th"), dtype="auto")
    assert 'th.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is th.float16)' in new
    assert 'with th.autocast("cuda", dtype=amp_dtype, enabled=use_amp):' in new
    assert 'use_amp = device.type == "cuda"\n' in new
    assert new.index("use_amp =") < new.index("amp_dtype =") < new.index("scaler =")
    assert "th.bfloat16" in new


OLD = program("import torch", "torch").replace(".to(device)", ".cuda()")


def test_below_torch_1_6_nothing_is_migrated() -> None:
    outcome = migrate(OLD, target_torch=(1, 4))
    assert [(loop.status, loop.reason) for loop in outcome.loops] == [("refused", "torch-too-old")]
    assert outcome.output is None


def test_at_torch_1_6_the_old_names_are_written() -> None:
    assert "torch.cuda.amp.GradScaler(" in output(OLD, target_torch=(1, 6))


def test_a_comment_stays_with_its_statement() -> None:
    source = """
        import torch
        def train(model, loader, optimizer, epochs):
            # the losses of all epochs
            losses = []
            for epoch in range(epochs):
                for x in loader:
                    optimizer.zero_grad()
                    loss = model(x.cuda()).mean()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
            return losses
    """
    new = output(textwrap.dedent(source))
    assert "    # the losses of all epochs\n    losses = []\n" in new
