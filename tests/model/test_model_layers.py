"""The classes that a model's layers may be of, however many of them there are."""

from __future__ import annotations

from amp_migrate.model.forwards.model_layers import layers
from amp_migrate.model.program import Program


def nested(depth: int) -> Program:
    """A model of a layer, of a layer, and so on."""
    text = "from torch import nn\n"
    for one in range(depth):
        text += f"class Layer{one}(nn.Module):\n    def __init__(self):\n"
        text += f"        self.inner = Layer{one + 1}()\n"
    return Program(text + f"class Layer{depth}(nn.Module):\n    pass\n", "net.py")


def test_the_last_of_many_is_found() -> None:
    program = nested(150)
    outer = next(one for one in program.graph.classes() if one.name == "Layer0")
    assert [cls.name for _, cls in layers(program, outer)][-1] == "Layer150"
