"""Loops that are left alone before any plan is made, each under its reason."""

from __future__ import annotations

import textwrap

import pytest

from tests.planner.programs import (
    HEAD,
    LOOP,
    body,
    migrate,
    output,
    script,
    text,
    verdict,
    verdicts,
)

REGION = "loss = criterion(model(x), y)\n"
STEP = "loss.backward()\noptimizer.step()\n"
PLAIN = REGION + STEP

BODIES = {
    "a closure": (
        (
            "def closure():\n    loss = criterion(model(x), y)\n"
            "    loss.backward()\n    return loss\noptimizer.step(closure)\n"
        ),
        "step-with-closure",
    ),
    "a closure by keyword": (
        (
            "def closure():\n    loss = criterion(model(x), y)\n"
            "    loss.backward()\n    return loss\noptimizer.step(closure=closure)\n"
        ),
        "step-with-closure",
    ),
    "nothing but a gradient": (
        "grads = torch.autograd.grad(model(x).sum(), x, create_graph=True)\nloss = "
        "grads[0].norm()\n" + STEP,
        "double-backward",
    ),
    "create_graph": (
        REGION + "loss.backward(create_graph=True)\noptimizer.step()\n",
        "double-backward",
    ),
    "two passes": (
        REGION + "loss.backward()\noptimizer.first_step()\n" + PLAIN,
        "two-pass-optimizer",
    ),
    "no optimizer, by hand": (
        REGION
        + (
            "loss.backward()\nwith torch.no_grad():\n    for p in model.parameters():\n        p "
            "-= 0.1 * p.grad\n"
        ),
        "step-elsewhere",
    ),
    "by hand, in place": (
        REGION
        + "loss.backward()\nfor p in model.parameters():\n    p.data.sub_(0.1 * p.grad.data)\n",
        "step-elsewhere",
    ),
}


@pytest.mark.parametrize(("source", "reason"), BODIES.values(), ids=BODIES)
def test_refused_by_what_the_loop_does(source: str, reason: str) -> None:
    assert verdict(source) == ("refused", reason)


MADE = {
    "half": ("model.half()\n", "already-half"),
    "bfloat16": ("model = model.bfloat16()\n", "already-half"),
    "double": ("model.double()\n", "already-half"),
    "a dtype": ("model.to(torch.float16)\n", "already-half"),
    "a dtype by keyword": ("model = model.to(dtype=torch.bfloat16)\n", "already-half"),
    "the default dtype": ("torch.set_default_dtype(torch.float64)\n", "already-half"),
    "LBFGS": ("optimizer = torch.optim.LBFGS(model.parameters())\n", "step-with-closure"),
    "another library's": (
        "import horovod.torch as hvd\noptimizer = hvd.DistributedOptimizer(model.parameters())\n",
        "not-a-torch-optimizer",
    ),
    "FSDP": (
        (
            "from torch.distributed.fsdp import FullyShardedDataParallel\nmodel = "
            "FullyShardedDataParallel(model)\n"
        ),
        "sharded",
    ),
    "distributed autograd": (
        "import torch.distributed.autograd as dist_autograd\n",
        "distributed-autograd",
    ),
    "RPC": ("import torch.distributed.rpc as rpc\n", "distributed-autograd"),
}


@pytest.mark.parametrize(("before", "reason"), MADE.values(), ids=MADE)
def test_refused_by_what_the_program_makes(before: str, reason: str) -> None:
    source = script(PLAIN, before=before)
    if "optimizer =" in before:
        source = source.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "", 1)
    assert verdicts(source) == [("refused", reason)]


FLOAT = {
    "float": "model.float()\n",
    "a dtype": "model.to(torch.float32)\n",
    "the default dtype": "torch.set_default_dtype(torch.float32)\n",
    "labels in half": "labels = labels.half()\n",
    "integers": "y = y.to(torch.int64)\n",
    "ordinary distribution": "import torch.distributed as dist\n",
    "a compiled model": "model = torch.compile(model)\n",
}


@pytest.mark.parametrize("before", FLOAT.values(), ids=FLOAT)
def test_float32_programs_are_migrated(before: str) -> None:
    assert "scaler.step(optimizer)" in body(PLAIN, before=before)


WRAPPER = text(
    """
    class NoamOpt:
        def __init__(self, optimizer):
            self.optimizer = optimizer
            self.rate = 0

        def step(self):
            self.rate += 1
            self.optimizer.step()


    noam = NoamOpt(optimizer)
    """
)


@pytest.mark.parametrize("name", ["noam", "optimizer"])
def test_a_wrapper_of_an_optimizer(name: str) -> None:
    source = PLAIN.replace("optimizer.step", f"{name}.step")
    new = output(script(source, before=WRAPPER.replace("noam =", f"{name} =")))
    assert "def step(self, scaler):" in new
    assert "scaler.step(self.optimizer)\n        scaler.update()\n" in new
    assert f"{name}.step(scaler=scaler)\n" in new


def test_a_wrapper_out_of_sight() -> None:
    source = PLAIN.replace("optimizer.step()", "wrapper.step_and_update_lr()")
    wrapper = "import lib\nwrapper = lib.Noam(optimizer)\n"
    assert verdict(source, before=wrapper) == ("refused", "optimizer-wrapper")


def test_backward_here_and_step_there() -> None:
    apart = (
        "def learn(x, y):\n    loss = criterion(model(x), y)\n"
        "    loss.backward()\n\n\ndef apply():\n    optimizer.step()\n"
    )
    assert verdicts(HEAD + apart) == [("refused", "step-elsewhere")]


@pytest.mark.parametrize(
    ("run", "why"),
    [("net(x)", "which `net` runs there (program.py:"), ("print(x)", "no call that was read")],
)
def test_backward_in_a_forward_that_the_step_runs(run: str, why: str) -> None:
    apart = f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        loss = self.fc(x).square().mean()
        loss.backward()
        return loss


net = Net().to(device)


def apply(x):
    {run}
    optimizer.step()
"""
    [loop] = migrate(HEAD + apart).loops
    assert (loop.status, loop.reason) == ("refused", "step-elsewhere")
    assert why in str(loop.message)


@pytest.mark.parametrize(
    "mark", ["@torch.compile", "@torch.compile(mode='reduce-overhead')", "@torch.jit.script"]
)
def test_a_compiled_step(mark: str) -> None:
    source = (
        f"{mark}\ndef step(x, "
        f"y):\n{textwrap.indent('optimizer.zero_grad()' + chr(10) + PLAIN, '    ')}"
    )
    assert verdicts(HEAD + source) == [("refused", "compiled-step")]


def test_a_step_compiled_by_a_call() -> None:
    source = f"def step(x, y):\n{textwrap.indent(PLAIN, '    ')}\n\nfast = torch.compile(step)\n"
    assert verdicts(HEAD + source) == [("refused", "compiled-step")]


FRAMEWORKS = {
    "accelerate": ("accelerator.backward(loss)", "mixed_precision"),
    "fabric": ("self.fabric.backward(loss)", "16-mixed"),
    "lightning": ("self.manual_backward(loss)", "16-mixed"),
    "deepspeed": ("model_engine.backward(loss)", "fp16"),
}


@pytest.mark.parametrize(("call", "setting"), FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_frameworks_have_a_setting(call: str, setting: str) -> None:
    outcome = migrate(
        HEAD
        + (
            "class Task:\n    def train(self, x):\n        loss = model(x).mean()\n"
            f"        {call}\n        optimizer.step()\n"
        )
    )
    assert outcome.status == "refused"
    assert [loop.reason for loop in outcome.loops] == ["framework-loop"]
    assert setting in (outcome.loops[0].message or "")


SCALED = "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n"
AMP = {
    "autocast": "with torch.autocast('cuda'):\n    loss = criterion(model(x), y)\n" + SCALED,
    "bfloat16": (
        "with torch.autocast('cuda', dtype=torch.bfloat16):\n    loss = criterion(model(x), y)\n"
        "loss.backward()\noptimizer.step()\n"
    ),
    "another name": "with torch.amp.autocast('cuda'):\n    loss = criterion(model(x), y)\n"
    + SCALED,
}


@pytest.mark.parametrize("source", AMP.values(), ids=AMP)
def test_loops_with_amp_are_skipped(source: str) -> None:
    assert verdict(source, before="scaler = torch.amp.GradScaler('cuda')\n") == (
        "skipped",
        "already-amp",
    )


IDLE = {
    "a saliency map": "x.requires_grad_()\nmodel(x).max().backward()\nshow(x.grad)\n",
    "an autograd demo": "z = (x * x).sum()\nz.backward()\n",
}


@pytest.mark.parametrize("source", IDLE.values(), ids=IDLE)
def test_scopes_that_do_not_train_are_skipped(source: str) -> None:
    assert verdict(source) == ("skipped", "no-optimizer")


def test_a_vector_of_losses() -> None:
    status, reason = verdict(
        "out = model(x)\nout.backward(gradient=torch.ones_like(out))\noptimizer.step()\n"
    )
    assert status == "refused"
    assert reason


QUIET = {
    "nothing": "",
    "a word": "# backward\n",
    "a method of that name": "class Undo:\n    def backward(self):\n        self.history.pop()\n",
    "a custom function": (
        "class Square(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, "
        "grad):\n        return grad\n"
    ),
    "a camera": "robot.move.backwards()\n",
}


@pytest.mark.parametrize("source", QUIET.values(), ids=QUIET)
def test_no_loop_no_outcome(source: str) -> None:
    outcome = migrate(HEAD + source)
    assert (outcome.status, outcome.loops, outcome.notes, outcome.output) == (
        "unchanged",
        (),
        (),
        None,
    )


SYNTAX = {
    "python 2": "print loss\nloss.backward()\n",
    "an open bracket": "loss.backward(\n",
    "indentation": "  loss.backward()\n x = 1\n",
}


@pytest.mark.parametrize("source", SYNTAX.values(), ids=SYNTAX)
def test_what_does_not_parse(source: str) -> None:
    outcome = migrate(source)
    assert outcome.output is None
    assert [loop.reason for loop in outcome.loops] == ["syntax"]
    assert "read by Python 3." in (outcome.error or "")
    assert (outcome.error or "").startswith("program.py:")


def test_the_line_of_a_refusal_is_told() -> None:
    source = (
        HEAD
        + LOOP
        + textwrap.indent(
            REGION
            + "model.weight.grad = None\n"
            + "loss.backward()\nmodel.weight.grad = kept[0]\noptimizer.step()\n",
            "    ",
        )
    )
    (loop,) = migrate(source).loops
    assert loop.line == source[: source.index("loss.backward")].count("\n") + 1
    assert f"line {loop.line + 1}:" in (loop.message or "")


def test_bfloat16_needs_no_scaler_for_two_passes() -> None:
    first, second = (
        REGION + STEP.replace("step()", f"{name}_step()") for name in ("first", "second")
    )
    new = body(first + second, dtype="bfloat16")
    assert new.count("with torch.autocast(") == 2
    assert "optimizer.first_step()" in new


BFLOAT16 = {
    "a vector of losses": (
        "",
        "loss = model(x)\nloss.backward(weights)\noptimizer.step()\n",
    ),
    "another library": (
        "import horovod.torch as hvd\noptimizer = hvd.DistributedOptimizer(model.parameters())\n",
        PLAIN,
    ),
    "by hand": (
        "",
        REGION + "loss.backward()\nfor p in model.parameters():\n    p.data.sub_(0.1 * p.grad)\n",
    ),
}


@pytest.mark.parametrize(("before", "loop"), BFLOAT16.values(), ids=BFLOAT16)
def test_bfloat16_asks_nothing_of_the_step(before: str, loop: str) -> None:
    """The same loops are refused in float16, where a scaler would have to make the step."""
    assert verdict(loop, before=before)[0] == "refused"
    new = body(loop, before=before, dtype="bfloat16")
    assert new.partition("\n")[0].startswith("with torch.autocast(")
    assert loop.partition("\n")[2] in new


def test_a_compiled_model_is_fine() -> None:
    new = body(
        "loss = criterion(fast(x), y)\n" + STEP,
        before='fast = torch.compile(model, mode="max-autotune")\n',
    )
    assert "    loss = criterion(fast(x), y)\nscaler.scale(loss).backward()" in new


@pytest.mark.parametrize(
    "maker",
    [
        "bitsandbytes.optim.Adam8bit",
        "apex.optimizers.FusedAdam",
        "timm.optim.create_optimizer_v2",
        "adabelief_pytorch.AdaBelief",
        "lion_pytorch.Lion",
        "torch_optimizer.RAdam",
    ],
)
def test_optimizers_of_libraries_that_keep_the_protocol(maker: str) -> None:
    package = maker.partition(".")[0]
    source = f"import {package}\noptimizer = {maker}(model.parameters())\n"
    plain = script(PLAIN, before=source)
    plain = plain.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "", 1)
    assert migrate(plain).loops[0].status == "migrated"
