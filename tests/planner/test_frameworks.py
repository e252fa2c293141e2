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


INFERS = {
    "accelerate": (
        "from accelerate import Accelerator",
        "accelerator = Accelerator()\nmodel = accelerator.prepare(model)\nprint(model(x))",
    ),
    "Lightning tests": ("import lightning as L", "L.Trainer().test(model)"),
    "Lightning predicts": ("import pytorch_lightning as pl", "pl.Trainer(gpus=1).predict(model)"),
    "Fabric": ("from lightning.fabric import Fabric", "model = Fabric().setup(model)"),
    "transformers": (
        "from transformers import Trainer, TrainingArguments",
        "Trainer(model, TrainingArguments('out')).evaluate()",
    ),
    "fastai": (
        "from fastai.vision.all import *",
        "learn = vision_learner(dls, resnet18)\nlearn.get_preds()",
    ),
    "a stored learner": ("from fastai.vision.all import *", "learn = load_learner('a.pkl')"),
}
TRAINS = {
    "accelerate": (*INFERS["accelerate"], "accelerator.backward(loss)"),
    "Lightning": (*INFERS["Lightning tests"], "trainer.fit(model)"),
    "transformers": (*INFERS["transformers"], "trainer.train()"),
    "fastai": (*INFERS["fastai"], "learn.fine_tune(1)"),
    "by another name": ("from lightning import Trainer as T", "T()", "trainer.fit(model)"),
    "the command line of Lightning": (
        "from lightning.pytorch.cli import LightningCLI",
        "LightningCLI(Net)",
        "",
    ),
    "older Lightning": (
        "import pytorch_lightning as pl",
        "trainer = pl.Trainer.from_argparse_args(args)",
        "trainer.fit(model)",
    ),
    "the command line of transformers": (
        "from transformers import HfArgumentParser, TrainingArguments",
        "parser = HfArgumentParser((Data, TrainingArguments))",
        "trainer.train()",
    ),
}


@pytest.mark.parametrize(("imports", "uses"), INFERS.values(), ids=INFERS)
def test_what_only_infers_has_no_loop(imports: str, uses: str) -> None:
    assert migrate(f"{imports}\n{uses}\n", unsafe=True).loops == ()


@pytest.mark.parametrize(("imports", "uses", "trains"), TRAINS.values(), ids=TRAINS)
def test_the_same_that_trains(imports: str, uses: str, trains: str) -> None:
    source = f"{imports}\n{uses}\n{trains}\n"
    assert [loop.reason for loop in migrate(source).loops] == ["framework-loop"]
    assert may_train(source.encode())


TABLES = {
    '{"bf16": {"enabled": True}}': "already-amp",
    '{"batch": 1, "fp16": {"enabled": True, "loss_scale": 0}}': "already-amp",
    '{"fp16": {"enabled": False}}': "framework-loop",
    '{"fp16": {"enabled": half}}': "framework-loop",
    '"ds.json"': "framework-loop",
}


@pytest.mark.parametrize(("table", "reason"), TABLES.items())
@pytest.mark.parametrize("setup", ["config = {}", "tables = {}\nconfig = tables"])
def test_the_tables_of_deepspeed(table: str, reason: str, setup: str) -> None:
    made = setup.format(table) if "tables" not in setup else setup.replace("{}", table)
    source = f"import deepspeed\n{made}\nx = deepspeed.initialize(model=m, config=config)\n"
    assert [loop.reason for loop in migrate(source).loops] == [reason]


SHARDED = """
import torch
from torch.distributed.fsdp import fully_shard
model = torch.nn.Linear(4, 1).cuda()
fully_shard(model{})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in data:
    optimizer.zero_grad()
    loss = model(x.cuda()).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("given", "reason"),
    [("", "sharded"), (", mesh=mesh", "sharded"), (", mp_policy=policy", "already-amp")],
)
def test_parameters_that_are_sharded_in_a_precision(given: str, reason: str) -> None:
    assert [loop.reason for loop in migrate(SHARDED.format(given)).loops] == [reason]
