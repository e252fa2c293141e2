"""A scaler that is read where its optimizer has been read, and was made right behind it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from amp_migrate.model.syntax.queries import nodes_in
from amp_migrate.rewrite.proof.beside import is_made_beside

MADE = """
from torch import optim
if train:
    optimizer = optim.SGD(net.parameters())
    scaler = make()
"""
BRANCHES = """
from torch import optim
if train:
    if adam:
        optimizer = optim.Adam(net.parameters())
    else:
        optimizer = optim.SGD(net.parameters())
        scheduler = optim.lr_scheduler.StepLR(optimizer, 3)
    scaler = make()
"""


def beside(made: str, read: str) -> bool:
    tree = ast.parse(made + textwrap.dedent(read))
    last = max(
        (
            (node.lineno, node.col_offset)
            for node in nodes_in(tree)
            if isinstance(node, ast.Name) and node.id == "scaler"
        ),
    )
    return is_made_beside(tree, "scaler", last)


@pytest.mark.parametrize("made", [MADE, BRANCHES])
@pytest.mark.parametrize(
    "read",
    [
        "if again:\n    step(net, optimizer, scaler=scaler)\n",
        "state = {'optimizer': optimizer.state_dict(), 'scaler': scaler.state_dict()}\n",
        "optimizer.load_state_dict(old)\nif old.get('s'):\n    scaler.load_state_dict(old['s'])\n",
    ],
)
def test_read_behind_its_optimizer(made: str, read: str) -> None:
    assert beside(made, read)


@pytest.mark.parametrize(
    "read",
    [
        "if again:\n    step(net, scaler=scaler)\n",  # nothing has read the optimizer
        "if again:\n    step(scaler, optimizer)\n",  # too late
        "if again:\n    optimizer.zero_grad()\nstep(scaler)\n",  # perhaps not read
        "step(later(lambda: optimizer), scaler)\n",
        "step(net and optimizer, scaler)\n",
        "def f():\n    optimizer.zero_grad()\nstep(scaler)\n",
    ],
)
def test_read_without_its_optimizer(read: str) -> None:
    assert not beside(MADE, read)


@pytest.mark.parametrize(
    "made",
    [
        MADE + "else:\n    optimizer = optim.Adam(net.parameters())\n",
        MADE + "with opened() as optimizer:\n    pass\n",
        MADE.replace("    scaler", "    train_once(net)\n    scaler"),
        BRANCHES.replace("optim.lr_scheduler.StepLR", "own_schedule"),
        MADE.replace("    scaler", "    if adam:\n        scaler"),
    ],
)
def test_optimizers_that_nothing_is_made_beside(made: str) -> None:
    assert not beside(made, "step(net, optimizer, scaler=scaler)\n")
