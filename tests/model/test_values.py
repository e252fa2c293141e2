"""What names and attributes hold."""

from __future__ import annotations

import pytest

from amp_migrate.model.values.kinds import Kind
from tests.model.questions import asked

KINDS = {
    "a layer": ("ask(nn.Linear(1, 1))", Kind.MODEL),
    "a moved layer": ("ask(nn.Linear(1, 1).to(device).train())", Kind.MODEL),
    "a class": ("class Net(nn.Module):\n    pass\nask(Net())", Kind.MODEL),
    "a derived class": (
        "class A(nn.Module):\n    pass\nclass B(A):\n    pass\nask(B())",
        Kind.MODEL,
    ),
    "DataParallel": ("net = nn.Linear(1, 1)\nask(nn.DataParallel(net))", Kind.MODEL),
    "a compiled model": ("ask(torch.compile(nn.Linear(1, 1)))", Kind.MODEL),
    "torchvision": ("import torchvision\nask(torchvision.models.resnet18())", Kind.MODEL),
    "a loss": ("ask(nn.CrossEntropyLoss())", Kind.CRITERION),
    "a loss class": ("class DiceLoss(nn.Module):\n    pass\nask(DiceLoss())", Kind.CRITERION),
    "an optimizer": ("ask(optim.Adam(params))", Kind.OPTIMIZER),
    "by its name": ("ask(getattr(optim, name)(params))", Kind.OPTIMIZER),
    "an optimizer class": ("class Mine(optim.Optimizer):\n    pass\nask(Mine())", Kind.OPTIMIZER),
    "from a function": (
        "def make(p):\n    return optim.SGD(p, lr=0.1)\nask(make(params))",
        Kind.OPTIMIZER,
    ),
    "from a tuple": (
        (
            "def make(p):\n    return nn.Linear(1, 1), optim.SGD(p, lr=0.1)\nnet, opt = "
            "make(1)\nask(opt)"
        ),
        Kind.OPTIMIZER,
    ),
    "unpacked": ("a, b = nn.Linear(1, 1), optim.SGD(p, lr=0.1)\nask(b)", Kind.OPTIMIZER),
    "either": ("opt = optim.SGD(p) if fast else optim.Adam(p)\nask(opt)", Kind.OPTIMIZER),
    "a list": ("ask([optim.SGD(a), optim.SGD(b)])", Kind.OPTIMIZERS),
    "a dict": ("ask({'a': optim.SGD(a)})", Kind.OPTIMIZERS),
    "one of a list": ("opts = [optim.SGD(a), optim.SGD(b)]\nask(opts[0])", Kind.OPTIMIZER),
    "another library's": (
        "import bitsandbytes as bnb\nask(bnb.optim.Adam8bit(p))",
        Kind.OPTIMIZER,
    ),
    "another framework's": (
        "import horovod.torch as hvd\nask(hvd.DistributedOptimizer(p))",
        Kind.FOREIGN_OPTIMIZER,
    ),
    "a scheduler": ("ask(optim.lr_scheduler.StepLR(opt, 1))", Kind.SCHEDULER),
    "a scaler": ("ask(torch.amp.GradScaler('cuda'))", Kind.SCALER),
    "the older scaler": ("ask(torch.cuda.amp.GradScaler())", Kind.SCALER),
    "a device": ("ask(torch.device('cuda'))", Kind.DEVICE),
    "a device by condition": (
        "device = torch.device('cuda' if x else 'cpu')\nask(device)",
        Kind.DEVICE,
    ),
    "a device's name": ("device = 'cuda' if x else 'cpu'\nask(device)", Kind.DEVICE_NAME),
    "the device that reaches": (
        "for device in ['cpu', 'cuda']:\n    pass\ndevice = torch.device('cuda')\nask(device)",
        Kind.DEVICE,
    ),
    "a wrapper only later": (
        (
            "class Noam:\n    def step(self):\n        self.optimizer.step()\n"
            "opt = optim.SGD(p)\nask(opt)\nopt = Noam(opt)"
        ),
        Kind.OPTIMIZER,
    ),
    "an attribute in the order of statements": (
        (
            "class A:\n    def f(self):\n        self.x = 'cuda'\n"
            "        self.x = torch.device(self.x)\n        ask(self.x)"
        ),
        Kind.DEVICE,
    ),
    "a formatted name": ("ask(f'cuda:{i}')", Kind.DEVICE_NAME),
    "a flag": ("ask(torch.cuda.is_available())", Kind.CUDA_FLAG),
    "a parameter's callers": ("def f(opt):\n    ask(opt)\nf(optim.SGD(p))", Kind.OPTIMIZER),
    "a parameter's annotation": ("def f(opt: optim.Optimizer):\n    ask(opt)", Kind.OPTIMIZER),
    "an attribute": (
        (
            "class T:\n    def __init__(self):\n        self.o = optim.SGD(p)\n    def f(self):\n    "
            "    ask(self.o)"
        ),
        Kind.OPTIMIZER,
    ),
    "an attribute of an object": (
        "class T:\n    def __init__(self):\n        self.o = optim.SGD(p)\nt = T()\nask(t.o)",
        Kind.OPTIMIZER,
    ),
    "an attribute of a base": (
        (
            "class A:\n    def __init__(self):\n        self.o = optim.SGD(p)\n"
            "class B(A):\n    def f(self):\n        ask(self.o)"
        ),
        Kind.OPTIMIZER,
    ),
}


@pytest.mark.parametrize(("source", "kind"), KINDS.values(), ids=KINDS)
def test_kinds(source: str, kind: Kind) -> None:
    program, expr, scope = asked(source)
    assert program.values.kind(expr, scope) is kind


NEITHER = {
    "an unknown call": "ask(build(config))",
    "a name bound nowhere": "ask(thing)",
    "a parameter nobody passes": "def f(x):\n    ask(x)",
    "itself": "x = x\nask(x)",
    "each other": "a = b\nb = a\nask(a)",
    "a recursive function": "def f():\n    return f()\nask(f())",
    "another dict": "ask(config['optimizer'])",
}


@pytest.mark.parametrize("source", NEITHER.values(), ids=NEITHER)
def test_what_nothing_shows_is_unknown(source: str) -> None:
    program, expr, scope = asked(source)
    assert program.values.kind(expr, scope) is Kind.UNKNOWN


OTHERS = {
    "a number": "ask(3)",
    "an array": "import numpy as np\nask(np.zeros(3))",
    "a text": "ask('text')",
}


@pytest.mark.parametrize("source", OTHERS.values(), ids=OTHERS)
def test_what_is_none_of_these(source: str) -> None:
    program, expr, scope = asked(source)
    assert program.values.kind(expr, scope) is not Kind.OPTIMIZER
    assert not program.values.is_model(expr, scope)
