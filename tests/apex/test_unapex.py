"""Step one: what is left of a program when apex is taken out of it."""

from __future__ import annotations

import textwrap

import pytest

from amp_migrate.apex import unapex
from amp_migrate.apex.erase import proved

HEAD = "import torch\nfrom apex import amp\n"

CASES = {
    "initialize and scale_loss": (
        """
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        """,
        """
        loss.backward()
        """,
    ),
    "both branches are one": (
        """
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        """,
        """
        loss.backward()
        """,
    ),
    "a loss that is no name": (
        """
        with amp.scale_loss(loss / n, optimizer, loss_id=1, delay_unscale=True) as s:
            s.backward(retain_graph=True)
        """,
        """
        (loss / n).backward(retain_graph=True)
        """,
    ),
    "the scaled loss is read twice": (
        """
        with amp.scale_loss(total(losses), optimizer) as s:
            s.backward()
            log(s.item())
        """,
        """
        s = total(losses)
        s.backward()
        log(s.item())
        """,
    ),
    "other statements in the with": (
        """
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
            # as it was
            clip(model)
        step()
        """,
        """
        loss.backward()
        # as it was
        clip(model)
        step()
        """,
    ),
    "the clip of the author without apex": (
        """
        if args.fp16:
            clip(amp.master_params(optimizer), 1.0)
        else:
            clip(model.parameters(), 1.0)
        """,
        """
        clip(model.parameters(), 1.0)
        """,
    ),
    "master_params of an optimizer whose model is known": (
        """
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        clip(amp.master_params(optimizer), 1.0)
        """,
        None,
    ),
    "master_params of an optimizer from elsewhere": (
        """
        clip(amp.master_params(trainer.optimizer), 1.0)
        """,
        """
        clip([p for group in trainer.optimizer.param_groups for p in group["params"]], 1.0)
        """,
    ),
    "other names for the results": (
        """
        net, opt = amp.initialize(model, optimizer)
        """,
        """
        net, opt = model, optimizer
        """,
    ),
    "one of the results renamed": (
        """
        net, optimizer = amp.initialize(model, optimizer)
        """,
        """
        net = model
        """,
    ),
    "lists": (
        """
        [d, g], [od, og] = amp.initialize([d, g], [od, og], num_losses=3)
        models, optimizers = amp.initialize([d, g], [od, og])
        """,
        """
        models, optimizers = [d, g], [od, og]
        """,
    ),
    "a model alone": (
        """
        model = amp.initialize(model, opt_level="O1")
        """,
        "",
    ),
    "results in one name": (
        """
        both = amp.initialize(model, optimizer)
        """,
        """
        both = (model, optimizer)
        """,
    ),
    "what else is under the flag stays": (
        """
        if args.fp16:
            print("half")
            model, optimizer = amp.initialize(model, optimizer)
        """,
        """
        if args.fp16:
            print("half")
        """,
    ),
    "an else without a then": (
        """
        if args.fp16:
            model, optimizer = amp.initialize(model, optimizer)
        else:
            print("single")
        """,
        """
        if not args.fp16:
            print("single")
        """,
    ),
    "elif": (
        """
        if a:
            scaler(loss)
        elif args.apex:
            with amp.scale_loss(loss, optimizer) as s:
                s.backward()
        else:
            loss.backward()
        """,
        """
        if a:
            scaler(loss)
        else:
            loss.backward()
        """,
    ),
    "a condition with an effect stays": (
        """
        if flags.pop():
            model, optimizer = amp.initialize(model, optimizer)
        """,
        """
        if flags.pop():
            pass
        """,
    ),
    "checkpoints": (
        """
        torch.save({"model": model.state_dict(), "amp": amp.state_dict()}, path)
        state["amp"] = amp.state_dict() if args.fp16 else None
        if args.fp16:
            amp.load_state_dict(checkpoint["amp"])
        """,
        """
        torch.save({"model": model.state_dict()}, path)
        """,
    ),
    "a function that autocast runs in half anyway": (
        """
        amp.register_half_function(torch, "einsum")
        """,
        "",
    ),
    "settled conditions": (
        """
        if amp is not None and args.fp16:
            a()
        assert amp is not None, "install apex"
        x = 1 if amp else 2
        """,
        """
        if args.fp16:
            a()
        x = 1
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_plain(name: str) -> None:
    before, after = CASES[name]
    text = HEAD + textwrap.dedent(before).strip() + "\n"
    plain = unapex(text, "train.py")
    assert plain is not None
    assert plain.refusals == ()
    assert proved(text, plain.text) is None
    assert "apex" not in plain.text
    if after is not None:
        assert plain.text == "import torch\n" + textwrap.dedent(after).lstrip("\n")


GUARDED = """
import torch

has_apex = True
try:
    from apex import amp
    from apex.parallel import DistributedDataParallel as DDP
except ImportError:
    has_apex = False

if has_apex and args.fp16:
    model, optimizer = amp.initialize(model, optimizer)
if has_apex:
    model = DDP(model, delay_allreduce=True)
if __name__ == "__main__":
    print(model)
"""


def test_guards_and_flags_go() -> None:
    plain = unapex(GUARDED, "train.py")
    assert plain is not None
    assert plain.text.startswith(
        "\nimport torch\n\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n\nmodel "
        "= DDP(model, find_unused_parameters=True)\n"
    )
    assert plain.switches == {"<module>": ("args.fp16",)}
    assert any("find_unused_parameters" in note.message for note in plain.notes)


@pytest.mark.parametrize(
    ("wrapped", "torch_wrapped"),
    [
        ("DDP(net)", "DDP(net, find_unused_parameters=True)"),
        (
            "DDP(\n    net,\n    delay_allreduce=True,\n)",
            "DDP(\n    net, find_unused_parameters=True)",
        ),
        ("net if isinstance(net, DDP) else net.module", None),
    ],
)
def test_parameters_may_go_without_a_gradient(wrapped: str, torch_wrapped: str | None) -> None:
    text = (
        "import torch\nfrom apex import amp\nfrom apex.parallel import DistributedDataParallel as "
        f"DDP\nnet = amp.initialize(net)\nnet = {wrapped}\n"
    )
    plain = unapex(text, "train.py")
    assert plain is not None
    assert plain.text.endswith(f"\nnet = {torch_wrapped or wrapped}\n")
    assert proved(text, plain.text) is None
    if torch_wrapped:
        assert proved(text, plain.text.replace(", find_unused_parameters=True", "")) is not None


def test_the_flag_of_a_module_that_others_may_import_stays() -> None:
    plain = unapex(GUARDED.partition("if __name__")[0], "utils.py")
    assert plain is not None
    assert "has_apex = True" in plain.text


@pytest.mark.parametrize(
    ("call", "torch_call"),
    [
        ("FusedAdam(model.parameters(), lr=1e-3)", "torch.optim.Adam(model.parameters(), lr=1e-3)"),
        ("FusedAdam(groups, lr=1e-3)", "torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.0)"),
        ("FusedAdam(groups, weight_decay=0.1)", "torch.optim.AdamW(groups, weight_decay=0.1)"),
        (
            "FusedAdam(groups, adam_w_mode=False, weight_decay=w)",
            "torch.optim.Adam(groups, weight_decay=w)",
        ),
        ("FusedSGD(groups, lr=0.1, momentum=0.9)", "torch.optim.SGD(groups, lr=0.1, momentum=0.9)"),
    ],
)
def test_optimizers(call: str, torch_call: str) -> None:
    text = (
        "import torch\nfrom apex import amp\nfrom apex.optimizers import FusedAdam, "
        f"FusedSGD\no = {call}\nm = amp.initialize(m)\n"
    )
    plain = unapex(text, "train.py")
    assert plain is not None
    assert plain.text == f"import torch\no = {torch_call}\n"
    assert proved(text, plain.text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from apex import amp\n@amp.float_function\ndef f(x): return x\n", "apex-form"),
        ("from apex import amp\nrun(amp)\n", "apex-form"),
        ("from apex import amp\nscale = amp._amp_state.loss_scalers[0]\n", "apex-form"),
        (
            "from apex.fp16_utils import FP16_Optimizer\no = FP16_Optimizer(o)\n",
            "apex-half-by-hand",
        ),
        ("from apex.fp16_utils import *\nm = network_to_half(m)\n", "apex-half-by-hand"),
        ("from apex.parallel.LARC import LARC\no = LARC(o)\n", "apex-optimizer"),
        (
            (
                "from apex import amp\nfrom apex.parallel import DistributedDataParallel as DDP\n"
                "m = wrap(DDP, m)\nm, o = amp.initialize(m, o)\n"
            ),
            "apex-form",
        ),
        (
            (
                "from apex import amp\nfrom apex.parallel import SyncBatchNorm\n"
                "m, o = amp.initialize(Net(SyncBatchNorm), o)\n"
            ),
            "apex-form",
        ),
        (
            (
                "from apex import amp\nfrom apex.optimizers import FusedAdam\no = FusedAdam(p, "
                "bias_correction=False)\n"
            ),
            "apex-optimizer",
        ),
        ("from apex import amp\nwith amp.scale_loss([a, b], o) as s:\n    run(s)\n", "apex-form"),
        (
            (
                "from apex import amp\nif args.first:\n    g, o = amp.initialize(g, o)\n"
                "if args.second:\n    d, p = amp.initialize(d, p)\n"
            ),
            "apex-form",
        ),
    ],
)
def test_refused(text: str, reason: str) -> None:
    plain = unapex(text, "train.py")
    assert plain is not None
    assert [loop.reason for loop in plain.refusals] == [reason]
    assert plain.text == text


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n",
        "from apex.optimizers import FusedLAMB\no = FusedLAMB(p)\n",
        "def f(amp):\n    with amp.scale_loss(l, o) as s:\n        s.backward()\n",
        "# apex.amp was here\n",
        "import apexlib\n",
        "from apex.parallel import SyncBatchNorm\nm = Net(SyncBatchNorm)\n",
        "from apex.parallel import DistributedDataParallel as DDP\nm = wrap(DDP, m)\n",
        "from apex import amp\nfrom apex.parallel import SyncBatchNorm\nm = Net(SyncBatchNorm)\n",
    ],
)
def test_not_concerned(text: str) -> None:
    assert unapex(text, "train.py") is None


LEVELS = """
if args.level == 0:
    model, optimizer = amp.initialize(model, optimizer, opt_level="O0")
elif args.level == 1:
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
{} args.level == 2:
    model, optimizer = {}
"""
SWITCHES = {
    'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")': {},
    "model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)": {
        "<module>": ('args.level != "O0"',)
    },
    "model, optimizer = amp.initialize(model, optimizer, enabled=args.half)": {
        "<module>": ("args.half",)
    },
    (
        "half = cfg.half\nlevel = 'O1' if half else 'O0'\nmodel, optimizer = amp.initialize(model, "
        "optimizer, opt_level=level)"
    ): {"<module>": ('level != "O0"', "half", "cfg.half")},
    "if a or b:\n    model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)": {
        "<module>": ('(a or b) and args.level != "O0"',)
    },
    "if not a:\n    pass\nelse:\n    model, optimizer = amp.initialize(model, optimizer)": {
        "<module>": ("not (not a)",)
    },
    LEVELS.format("elif", 'amp.initialize(model, optimizer, opt_level="O2")'): {
        "<module>": ("args.level == 1 or args.level == 2",)
    },
    LEVELS.format("elif", "(model, optimizer)"): {"<module>": ("args.level == 1",)},
    LEVELS.replace("O0", "O1").format("elif", "amp.initialize(model, optimizer)"): {
        "<module>": ("args.level == 0 or args.level == 1 or args.level == 2",)
    },
}


@pytest.mark.parametrize("code", SWITCHES)
def test_switches(code: str) -> None:
    plain = unapex(HEAD + code + "\n", "train.py")
    assert plain is not None
    assert plain.switches == SWITCHES[code]


def test_an_option_that_holds_text_becomes_a_bool() -> None:
    text = HEAD + (
        "parser.add_argument('--fp16', type=str, default='')\nif args.fp16:\n    model = "
        "amp.initialize(model)\n"
    )
    plain = unapex(text, "train.py")
    assert plain is not None
    assert plain.switches == {"<module>": ("bool(args.fp16)",)}


def test_comments_about_apex_go_with_it() -> None:
    text = HEAD + (
        "# half precision\n# by apex\nmodel, o = amp.initialize(model, o)\n# a comment\nmodel, "
        "o = amp.initialize(model, o)\n"
    )
    plain = unapex(text, "train.py")
    assert plain is not None
    assert plain.text == "import torch\n# a comment\n"
