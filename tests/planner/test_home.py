"""Where the scaler is made, and how it gets to the loop."""

from __future__ import annotations

import textwrap

import pytest

from tests.planner.programs import SCALER, migrate, output, text, verdicts

TOP = text(
    """
    import torch
    import torch.nn as nn

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    """
)
MODEL = "model = nn.Linear(8, 8).to(device)\n"
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
BATCHES = text(
    """
    for x in loader:
        x = x.to(device)
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
    """
)


def function(head: str, body: str) -> str:
    return f"\n\ndef {head}:\n{textwrap.indent(body, '    ')}"


def test_a_module_scaler_follows_the_optimizer() -> None:
    assert SGD + SCALER + "for x in loader:" in output(TOP + MODEL + SGD + BATCHES)


def test_what_stands_between_optimizer_and_loop_comes_after_it() -> None:
    between = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\nprint('go')\n"
    assert SGD + SCALER + between in output(TOP + MODEL + SGD + between + BATCHES)


def test_a_local_optimizer_has_a_local_scaler() -> None:
    new = output(TOP + function("train(loader)", MODEL + SGD + BATCHES))
    assert textwrap.indent(SGD + SCALER, "    ") in new
    assert "\ndef train(loader):\n" in new


def test_a_function_reads_the_modules_scaler() -> None:
    new = output(TOP + MODEL + SGD + function("train(loader)", BATCHES))
    assert SGD + SCALER in new
    assert "def train(loader):\n    for x in loader:\n" in new
    assert "global" not in new


def test_one_scaler_after_the_last_of_two_optimizers() -> None:
    two = (
        "other = nn.Linear(8, 8).to(device)\n"
        + SGD
        + "second = torch.optim.SGD(other.parameters(), lr=0.1)\n"
    )
    loop = BATCHES.replace("optimizer.step()", "optimizer.step()\n    second.step()").replace(
        "model(x)", "other(model(x))"
    )
    new = output(TOP + MODEL + two + loop)
    assert two + SCALER in new
    assert new.count("GradScaler") == 1


BRANCHES = {
    "if/else": "if fast:\n    optimizer = torch.optim.Adam(model.parameters())\nelse:\n    " + SGD,
    "if/elif/else": "if fast:\n    optimizer = torch.optim.Adam(model.parameters())\nelif slow:\n    optimizer = "
    "torch.optim.RMSprop(model.parameters())\nelse:\n    " + SGD,
    "raise at the end": "if fast:\n    optimizer = torch.optim.Adam(model.parameters())\nelif slow:\n    "
    + SGD
    + "else:\n    raise ValueError(fast)\n",
}


@pytest.mark.parametrize("made", BRANCHES.values(), ids=BRANCHES)
def test_after_the_whole_branch(made: str) -> None:
    new = output(TOP + MODEL + made + BATCHES)
    assert made + SCALER in new
    assert new.count("GradScaler") == 1


def test_rebuilt_where_the_optimizer_is_rebuilt() -> None:
    rounds = "for fold in range(3):\n" + textwrap.indent(MODEL + SGD + BATCHES, "    ")
    assert textwrap.indent(SGD + SCALER, "    ") in output(TOP + rounds)


def test_a_parameter_is_appended_and_passed_by_keyword() -> None:
    train = function("train(model, loader, optimizer)", BATCHES)
    main = function(
        "main()", MODEL + SGD + "for epoch in range(3):\n    train(model, loader, optimizer)\n"
    )
    new = output(TOP + train + main)
    assert "def train(model, loader, optimizer, scaler):" in new
    assert textwrap.indent(SGD + SCALER, "    ") in new
    assert "train(model, loader, optimizer, scaler=scaler)" in new
    assert new.count("GradScaler") == 1


def test_every_call_passes_it() -> None:
    train = function("train(model, loader, optimizer)", BATCHES)
    main = function(
        "main()",
        MODEL
        + SGD
        + "for epoch in range(3):\n    train(model, a, optimizer)\n    train(model, loader=b, optimizer=optimizer)\n",
    )
    new = output(TOP + train + main)
    assert "train(model, a, optimizer, scaler=scaler)" in new
    assert "train(model, loader=b, optimizer=optimizer, scaler=scaler)" in new


def test_defaults_stay_behind_the_new_parameter() -> None:
    train = function("train(model, loader, optimizer, verbose=True)", BATCHES)
    main = function(
        "main()", MODEL + SGD + "for epoch in range(3):\n    train(model, loader, optimizer)\n"
    )
    compile(output(TOP + train + main), "program.py", "exec")


def test_keyword_only_parameters() -> None:
    train = function("train(model, loader, *, optimizer)", BATCHES)
    main = function(
        "main()",
        MODEL + SGD + "for epoch in range(3):\n    train(model, loader, optimizer=optimizer)\n",
    )
    new = output(TOP + train + main)
    compile(new, "program.py", "exec")
    assert "optimizer=optimizer, scaler=scaler)" in new


def test_two_hops() -> None:
    train = function("train(model, loader, optimizer)", BATCHES)
    fit = function(
        "fit(model, optimizer)", "for epoch in range(3):\n    train(model, loader, optimizer)\n"
    )
    new = output(
        TOP
        + train
        + fit
        + function("main()", MODEL + SGD + "for part in parts:\n    fit(model, optimizer)\n")
    )
    assert "def fit(model, optimizer, scaler):" in new
    assert "    fit(model, optimizer, scaler=scaler)" in new
    assert "train(model, loader, optimizer, scaler=scaler)" in new


def test_a_function_with_the_whole_epoch_loop_has_its_own() -> None:
    epochs = "for epoch in range(3):\n" + textwrap.indent(BATCHES, "    ")
    train = function("train(model, loader, optimizer)", epochs)
    new = output(
        TOP + train + function("main()", MODEL + SGD + "train(model, loader, optimizer)\n")
    )
    assert "def train(model, loader, optimizer):\n    scaler = torch.amp.GradScaler(" in new
    assert "train(model, loader, optimizer)\n" in new


def test_such_a_function_called_in_a_loop_is_threaded() -> None:
    epochs = "for epoch in range(3):\n" + textwrap.indent(BATCHES, "    ")
    train = function("train(model, loader, optimizer)", epochs)
    new = output(
        TOP
        + train
        + function(
            "main()", MODEL + SGD + "for part in parts:\n    train(model, part, optimizer)\n"
        )
    )
    assert "train(model, part, optimizer, scaler=scaler)" in new
    assert new.count("GradScaler") == 1


TRAINER = text(
    """
    class Trainer:
        def __init__(self, device):
            self.device = torch.device(device)
            self.model = nn.Linear(8, 8).to(self.device)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.epoch = 0

        def train(self, loader):
            for x in loader:
                loss = self.model(x.to(self.device)).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
    """
)
ATTRIBUTE = 'self.scaler = torch.amp.GradScaler("cuda", enabled=self.device.type == "cuda")'


def test_an_attribute_beside_the_optimizer() -> None:
    new = output(TOP + TRAINER)
    assert f"lr=0.1)\n        {ATTRIBUTE}\n        self.epoch = 0" in new
    assert "self.scaler.step(self.optimizer)" in new
    assert 'torch.autocast("cuda", dtype=torch.float16, enabled=self.scaler.is_enabled())' in new


def test_whatever_method_makes_it() -> None:
    moved = TRAINER.replace("        self.epoch = 0\n", "").replace(
        "        self.optimizer = torch",
        "\n    def configure(self):\n        self.optimizer = torch",
    )
    new = output(TOP + moved)
    assert (
        "def configure(self):\n"
        f"        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n        {ATTRIBUTE}"
    ) in new


def test_a_base_class_in_the_same_file() -> None:
    init, _, train = TRAINER.partition("    def train")
    derived = TOP + init + "\n\nclass Special(Trainer):\n    def train" + train
    assert ATTRIBUTE in output(derived)


def test_an_optimizer_of_the_enclosing_function() -> None:
    inner = function("step()", BATCHES).strip("\n") + "\n"
    new = output(TOP + function("main()", MODEL + SGD + inner + "step()\n"))
    assert new.count("GradScaler") == 1
    assert "nonlocal" not in new
    assert textwrap.indent(SGD + SCALER, "    ") in new


def test_a_list_of_optimizers_shares_one_scaler() -> None:
    made = "optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]\n"
    loop = text(
        """
        for x in loader:
            x = x.to(device)
            for model, optimizer in zip(models, optimizers):
                optimizer.zero_grad()
                loss = model(x).mean()
                loss.backward()
                optimizer.step()
        """
    )
    new = output(TOP + "models = [nn.Linear(8, 8).to(device) for _ in range(2)]\n" + made + loop)
    assert made + SCALER in new
    assert "        scaler.step(optimizer)\n        scaler.update()\n" in new


TAKEN = {
    "a StandardScaler": ("scaler = StandardScaler()\n", "grad_scaler"),
    "an attribute of another object": ("data.scaler = 3\n", "grad_scaler"),
    "both": ("scaler = grad_scaler = 3\n", "amp_scaler"),
}


@pytest.mark.parametrize(("line", "name"), TAKEN.values(), ids=TAKEN)
def test_a_name_that_is_free(line: str, name: str) -> None:
    new = output(TOP + line + MODEL + SGD + BATCHES)
    assert f"{name} = torch.amp.GradScaler(" in new
    assert f"{name}.scale(loss).backward()" in new
    assert line in new


def test_spawned_functions_get_no_argument() -> None:
    run = function("run(rank)", "device = rank\n" + MODEL + SGD + BATCHES)
    new = output(TOP + run + "\n\ntorch.multiprocessing.spawn(run, nprocs=2)\n")
    assert "spawn(run, nprocs=2)" in new
    assert "def run(rank):" in new


REFUSED = {
    "a config system": ("optimizer = build(config, model)\n", "", "optimizer-not-in-sight"),
    "nowhere": ("", "", "optimizer-not-in-sight"),
}


@pytest.mark.parametrize(("made", "before", "reason"), REFUSED.values(), ids=REFUSED)
def test_an_optimizer_out_of_sight_is_refused(made: str, before: str, reason: str) -> None:
    assert verdicts(TOP + before + MODEL + made + BATCHES) == [("refused", reason)]


def test_an_attribute_that_no_class_in_sight_sets_is_refused() -> None:
    foreign = TRAINER.replace(
        "        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n", ""
    )
    foreign = foreign.replace("class Trainer:", "class Trainer(framework.Base):")
    assert verdicts(TOP + foreign) == [("refused", "optimizer-not-in-sight")]


def test_one_loop_of_two_is_migrated() -> None:
    good = function("good(loader)", MODEL + SGD + BATCHES)
    bad = function("bad(loader, model)", "optimizer = build(config, model)\n" + BATCHES)
    outcome = migrate(TOP + good + bad)
    assert [(loop.scope, loop.status) for loop in outcome.loops] == [
        ("good", "migrated"),
        ("bad", "refused"),
    ]
    assert outcome.output is not None
    assert outcome.output.endswith(bad)


SWITCHED = """
optimizer = None
if name == "sgd":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if name == "adam":
    optimizer = torch.optim.Adam(model.parameters())
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    if epoch == 1:
        optimizer = torch.optim.ASGD(model.parameters())
"""


def test_two_ifs_and_a_rebuild_between_epochs_share_one_scaler() -> None:
    new = output(TOP + MODEL + SWITCHED)
    assert new.count("GradScaler(") == 1
    assert f"    optimizer = torch.optim.Adam(model.parameters())\n{SCALER}for epoch" in new


EACH_EPOCH = """
def train(epoch):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()


for epoch in range(1, 4):
    train(epoch)
"""


def test_an_optimizer_built_in_every_epoch_does_not_make_a_scaler_in_every_epoch() -> None:
    new = output(TOP + MODEL + EACH_EPOCH)
    assert new.index(f"\n{SCALER}") < new.index("def train(epoch):")
    assert new.count("GradScaler(") == 1


def test_branches_that_make_an_optimizer_and_train_with_it_have_a_scaler_each() -> None:
    loop = function("train(model, optimizer)", BATCHES)
    branches = (
        "\nif plain:\n    "
        + SGD
        + "    train(model, optimizer)\nelif adam:\n    optimizer = torch.optim.Adam(model.parameters())\n"
        + "    train(model, optimizer)\n"
    )
    new = output(TOP + MODEL + loop + branches)
    assert new.count("    scaler = torch.amp.GradScaler(") == 2
    assert new.count("    train(model, optimizer, scaler=scaler)\n") == 2
