"""Binary cross-entropy on probabilities: a float32 sigmoid and a late loss, or a refusal."""

from __future__ import annotations

import pytest

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text
from tests.planner.programs import body, migrate, output, script, text, verdict, verdicts

STEP = "loss.backward()\noptimizer.step()\n"

SIGMOIDS = {
    "torch.sigmoid": ("torch.sigmoid(model(x))", "torch.sigmoid(model(x).float())"),
    "a method": ("model(x).sigmoid()", "model(x).float().sigmoid()"),
    "F.sigmoid": ("F.sigmoid(model(x))", "F.sigmoid(model(x).float())"),
}


@pytest.mark.parametrize(("before", "after"), SIGMOIDS.values(), ids=SIGMOIDS)
def test_the_sigmoid_is_float_and_the_loss_is_late(before: str, after: str) -> None:
    assert body(f"output = {before}\nloss = F.binary_cross_entropy(output, y)\n{STEP}") == text(
        f"""
        WITH:
            output = {after}
        loss = F.binary_cross_entropy(output, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        """
    )


def test_terms_added_to_it_are_late_too() -> None:
    new = body(
        "output = torch.sigmoid(model(x))\nloss = F.binary_cross_entropy(output, y)\nloss = "
        f"loss + 1.0\n{STEP}"
    )
    assert (
        "\nloss = F.binary_cross_entropy(output, y)\nloss = loss + 1.0\nscaler.scale(loss)" in new
    )


def test_reshaped_probabilities() -> None:
    new = body(
        "output = torch.sigmoid(model(x)).view(-1)\nloss = F.binary_cross_entropy(output, "
        f"y)\n{STEP}"
    )
    assert "output = torch.sigmoid(model(x).float()).view(-1)\nloss = F" in new


NET = text(
    """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 1)
            self.sigmoid = nn.Sigmoid()

        def forward(self, x):
            x = self.fc(x)
            return RESULT


    model = Net().cuda()
    criterion = nn.BCELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        output = model(x.cuda())
        loss = criterion(output, y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
)
RESULTS = {
    "a layer": ("self.sigmoid(x)", "self.sigmoid(x.float())"),
    "a function": ("torch.sigmoid(x)", "torch.sigmoid(x.float())"),
    "a method": ("x.sigmoid()", "x.float().sigmoid()"),
}


@pytest.mark.parametrize(("before", "after"), RESULTS.values(), ids=RESULTS)
def test_the_sigmoid_of_the_forward(before: str, after: str) -> None:
    new = output(NET.replace("RESULT", before))
    assert f"        return {after}\n" in new
    assert "        output = model(x.cuda())\n    loss = criterion(output, y.cuda())\n" in new


def test_a_cast_that_is_there_stays() -> None:
    new = output(NET.replace("RESULT", "torch.sigmoid(x.float())"))
    assert "        return torch.sigmoid(x.float())\n" in new


@pytest.mark.parametrize(
    "loss", ["nn.BCEWithLogitsLoss()", "nn.CrossEntropyLoss()", "nn.MSELoss()"]
)
def test_other_losses_stay_in_the_region(loss: str) -> None:
    new = output(NET.replace("RESULT", "x").replace("nn.BCELoss()", loss))
    assert "        loss = criterion(output, y.cuda())\n" in new
    assert ".float()" not in new


def test_logits_by_function_stay_in_the_region() -> None:
    new = body(f"loss = F.binary_cross_entropy_with_logits(model(x), y)\n{STEP}")
    assert "    loss = F.binary_cross_entropy_with_logits(model(x), y)\n" in new
    assert ".float()" not in new


HIDDEN = {
    "no sigmoid": "x",
    "a Sequential that grows": "self.tail(x)",
}


@pytest.mark.parametrize("result", HIDDEN.values(), ids=HIDDEN)
def test_a_sigmoid_that_cannot_be_reached_is_refused(result: str) -> None:
    source = NET.replace("RESULT", result).replace(
        "        self.sigmoid = nn.Sigmoid()",
        "        self.tail = nn.Sequential(nn.Linear(1, 1), nn.Sigmoid())\n"
        "        self.tail.append(nn.Identity())",
    )
    assert verdicts(source) == [("refused", "bce-on-probabilities")]


def test_the_last_layer_of_a_sequential_gets_float32() -> None:
    model = "net = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid()).to(device)\n"
    source = f"output = net(x)\nloss = F.binary_cross_entropy(output, y)\n{STEP}"
    new = output(script(source, before=model))
    assert "    output = net[-1](net[:-1](x).float())\n" in new


def test_a_sequential_that_ends_in_something_else_is_refused() -> None:
    model = "net = nn.Sequential(nn.Sigmoid(), nn.Linear(8, 8)).to(device)\n"
    source = f"output = net(x)\nloss = F.binary_cross_entropy(output, y)\n{STEP}"
    assert verdict(source, before=model) == ("refused", "bce-on-probabilities")


COMPUTES_ITS_LOSS = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x, y):
        out = torch.sigmoid(self.layer(x))
        return out, F.binary_cross_entropy(out, y)


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    out, loss = model(x.cuda(), y.cuda())
    loss.backward()
    optimizer.step()
"""


def test_a_model_that_computes_its_loss_is_refused_with_the_line_that_does() -> None:
    source = COMPUTES_ITS_LOSS.replace("torch.sigmoid(self.layer(x))", "self.layer(x)")
    [loop] = migrate_text(source, "train.py", Settings()).loops
    assert loop.reason == "bce-on-probabilities"
    assert "line 13: BCELoss on probabilities is unsafe in half precision" in (loop.message or "")


def test_a_model_that_computes_its_loss_does_so_without_autocast() -> None:
    new = output(COMPUTES_ITS_LOSS)
    assert "        out = torch.sigmoid(self.layer(x).float())\n" in new
    assert (
        '        with torch.autocast("cuda", enabled=False):\n'
        "            return out, F.binary_cross_entropy(out, y)\n" in new
    )


def test_forward_and_loss_in_one_statement_are_set_apart() -> None:
    new = body(f"loss = F.binary_cross_entropy(torch.sigmoid(model(x)), y)\n{STEP}")
    assert "    model_output = torch.sigmoid(model(x).float())\n" in new
    assert "\nloss = F.binary_cross_entropy(model_output, y)\n" in new


def test_a_softmax_before_the_loss_is_float32_already() -> None:
    new = body(f"p = torch.softmax(model(x), 1)\nloss = F.binary_cross_entropy(p, y)\n{STEP}")
    assert ".float()" not in new
    assert "    p = torch.softmax(model(x), 1)\nloss = F.binary_cross_entropy(p, y)\n" in new


TWO_MODELS = text(
    """
    class First(nn.Module):
        def forward(self, x):
            return torch.sigmoid(x @ x)


    class Second(nn.Module):
        def forward(self, x):
            return (x @ x).sigmoid()


    def make(name):
        if name == "first":
            return First()
        return Second()


    net = make(name).to(device)
    """
)


@pytest.mark.parametrize("run", ["net(x)", "net.forward(x)"])
def test_every_class_of_a_factory_gets_float(run: str) -> None:
    source = script(f"p = {run}\nloss = F.binary_cross_entropy(p, y)\n{STEP}", before=TWO_MODELS)
    new = output(source)
    assert "torch.sigmoid((x @ x).float())" in new
    assert "return (x @ x).float().sigmoid()" in new


FOREIGN = text(
    """
    import torchvision


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torchvision.models.densenet121()
            self.net.classifier = HEAD

        def forward(self, x):
            return self.net(x)


    net = Net().to(device)
    """
)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (
            "nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())",
            "`nn.Sigmoid()` (program.py:17) is run by",
        ),
        ("nn.Linear(4, 1)", "the sigmoid is out of sight"),
    ],
)
def test_a_sigmoid_that_is_part_of_a_foreign_model_is_named(head: str, why: str) -> None:
    before = FOREIGN.replace("HEAD", head)
    body = f"p = net(x)\nloss = F.binary_cross_entropy(p, y)\n{STEP}"
    message = migrate(script(body, before=before)).loops[0].message
    assert why in str(message)
