"""Loops that a framework runs: recognised without a backward, told their setting, given it with
`--unsafe`.
"""

from __future__ import annotations

import pytest

from amp_migrate.project.prefilter import may_train
from tests.planner.programs import migrate, output

MADE = {
    "accelerate": ("from accelerate import Accelerator", "Accelerator()", "fp16"),
    "Lightning": ("import lightning as L", "L.Trainer(precision=32)", "16-mixed"),
    "older Lightning": ("import pytorch_lightning as pl", "pl.Trainer(gpus=1)", "precision=16"),
    "Lightning of options": (
        "import pytorch_lightning as pl",
        "pl.Trainer.from_argparse_args(args, max_steps=9)",
        "decided by args; switch AMP on with Trainer(precision=16)",
    ),
    "Fabric": ("from lightning.fabric import Fabric", "Fabric()", "16-mixed"),
    "transformers": (
        "from transformers import TrainingArguments",
        "TrainingArguments('out')",
        "fp16=True",
    ),
    "ignite": (
        "from ignite.engine import create_supervised_trainer",
        "create_supervised_trainer(m, o, l)",
        "amp_mode",
    ),
    "MONAI": (
        "from monai.engines import SupervisedTrainer",
        "SupervisedTrainer(device=d)",
        "amp=True",
    ),
    "fastai": ("from fastai.vision.all import *", "vision_learner(dls, resnet18)", "to_fp16()"),
    "DeepSpeed": (
        "import deepspeed",
        "deepspeed.initialize(model=m, config=c)",
        '"fp16": {"enabled": true}',
    ),
}
SETTLED = {
    "on": ("import lightning as L", "L.Trainer(precision='16-mixed')", "already-amp"),
    "on, beside options": (
        "import pytorch_lightning as pl",
        "pl.Trainer.from_argparse_args(args, precision=16)",
        "already-amp",
    ),
    "on, by a rival": (
        "from transformers import TrainingArguments",
        "TrainingArguments('out', bf16=True)",
        "already-amp",
    ),
    "on, for a learner": (
        "from fastai.vision.all import *",
        "vision_learner(dls, resnet18).to_fp16()",
        "already-amp",
    ),
    "the CPU": ("import lightning as L", "L.Trainer(accelerator='cpu')", "cpu-only"),
}


@pytest.mark.parametrize(("imports", "call", "setting"), MADE.values(), ids=MADE)
def test_a_trainer_is_a_loop(imports: str, call: str, setting: str) -> None:
    source = f"{imports}\n\nx = {call}\n"
    outcome = migrate(source)
    (loop,) = outcome.loops
    assert (outcome.status, loop.status, loop.reason, loop.line) == (
        "refused",
        "refused",
        "framework-loop",
        3,
    )
    assert setting in (loop.message or "")
    assert may_train(source.encode())


@pytest.mark.parametrize(("imports", "call", "reason"), SETTLED.values(), ids=SETTLED)
def test_settled_ones_are_skipped(imports: str, call: str, reason: str) -> None:
    outcome = migrate(f"{imports}\nx = {call}\n", unsafe=True)
    assert outcome.status == "unchanged"
    assert [(loop.status, loop.reason) for loop in outcome.loops] == [("skipped", reason)]


OPEN = ("DeepSpeed", "Lightning of options")


@pytest.mark.parametrize("name", [name for name in MADE if name not in OPEN])
def test_unsafe_writes_it_once(name: str) -> None:
    imports, call, _ = MADE[name]
    source = f"import torch\n{imports}\n\nx = {call}\n"
    new = output(source, unsafe=True)
    assert migrate(new, unsafe=True).output is None
    assert [line for line in new.splitlines() if line not in source.splitlines()] == [
        new.splitlines()[3]
    ]


def test_torch_is_imported_for_the_question() -> None:
    source = (
        "from accelerate import Accelerator\n\naccelerator = Accelerator(mixed_precision='no')\n"
    )
    assert output(source, unsafe=True) == (
        "from accelerate import Accelerator\nimport torch\n\n"
        'accelerator = Accelerator(mixed_precision="fp16" if torch.cuda.is_available() else "no")\n'
    )


def test_bfloat16_has_its_own_values() -> None:
    source = (
        "import torch\nfrom transformers import TrainingArguments\na = "
        "TrainingArguments('out', fp16=False)\n"
    )
    assert "fp16=False, bf16=torch.cuda.is_available())" in output(
        source, unsafe=True, dtype="bfloat16"
    )


def test_a_framework_s_backward_is_the_loop_and_the_trainer_its_setting() -> None:
    source = (
        "import torch\nfrom accelerate import Accelerator\n\naccelerator = Accelerator()\n\n\n"
        "def train(model, optimizer, x):\n    accelerator.backward(model(x).mean())\n    "
        "optimizer.step()\n"
    )
    (loop,) = migrate(source).loops
    assert (loop.line, loop.scope, loop.reason) == (8, "train", "framework-loop")
    assert "in line 4" in (loop.message or "")
    (loop,) = migrate(source, unsafe=True).loops
    assert (loop.line, loop.status) == (8, "migrated")


def test_torch_s_clipping_forbids_it() -> None:
    source = (
        "import torch\nfrom accelerate import Accelerator\naccelerator = Accelerator()\n"
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    )
    outcome = migrate(source, unsafe=True)
    assert outcome.output is None
    assert "line 4 clips" in (outcome.loops[0].message or "")


def test_beside_a_plain_loop() -> None:
    source = (
        "import torch\nimport lightning as L\nmodel = torch.nn.Linear(2, 2).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor x in data:\n    "
        "optimizer.zero_grad()\n"
        "    loss = model(x.cuda()).pow(2).mean()\n    loss.backward()\n    "
        "optimizer.step()\ntrainer = L.Trainer()\n"
    )
    new = output(source, unsafe=True)
    assert "scaler.step(optimizer)" in new
    assert '"16-mixed" if torch.cuda.is_available() else "32-true")' in new


OTHER = {
    "inference": (
        "from accelerate import Accelerator\na = "
        "Accelerator(mixed_precision=args.mixed_precision)\n"
    ),
    "a class of the project": "from engine import Trainer\nt = Trainer(precision=32)\n",
    "only its name": "# lightning Trainer(\nx = 1\n",
}


@pytest.mark.parametrize("source", OTHER.values(), ids=OTHER)
def test_others_are_not_meant(source: str) -> None:
    assert migrate(source).loops == ()


@pytest.mark.parametrize(
    ("plugin", "setting"), [("DDPPlugin", "precision=16"), ("DDPStrategy", "16-mixed")]
)
def test_a_class_that_lightning_2_took_away_tells_its_version(plugin: str, setting: str) -> None:
    imports = f"import pytorch_lightning as pl\nfrom pytorch_lightning.plugins import {plugin}\n"
    (loop,) = migrate(f"{imports}x = pl.Trainer(strategy={plugin}(), **given)\n").loops
    assert loop.message is not None
    assert setting in loop.message


@pytest.mark.parametrize(("default", "status"), [("16", "skipped"), ("32", "refused")])
def test_the_default_of_an_option_says_whether_amp_is_on(default: str, status: str) -> None:
    parser = "import argparse\nparser = argparse.ArgumentParser()\n"
    parser += f"parser.add_argument('--precision', default={default}, type=int)\n"
    source = f"import lightning as L\n{parser}args = parser.parse_args()\n"
    (loop,) = migrate(source + "x = L.Trainer(precision=args.precision)\n").loops
    assert loop.status == status
