"""Whole training programs, drawn part by part: where the optimizer lives, the shape of forward and
loss, the cycle.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from hypothesis import strategies as st

HOMES = ("module", "local", "global", "parameter", "two hops", "self", "enclosing")
REGIONS = (
    "straight",
    "one statement",
    "inline",
    "helper",
    "interleaved",
    "branches",
    "inner loop",
    "target",
    "comments",
    "several lines",
)
CLIPS = ("none", "norm", "value", "conditional", "own", "logged")
CYCLES = (
    "plain",
    "zero before backward",
    "zero at the end",
    "accumulated",
    "two optimizers",
    "second pair",
)
DEVICES = ("device", "string", "cuda", "flag")
IMPORTS = ("import torch", "import torch as th", "from torch import ...")


@dataclass(frozen=True)
class Shape:
    """The parts of one program."""

    home: str
    region: str
    clip: str
    cycle: str
    device: str
    imports: str
    scheduler: bool
    checkpoint: bool
    tail: bool
    """Whether the batch's loss and output are used after the step."""
    indent: str
    newline: str
    end: str


shapes = st.builds(
    Shape,
    home=st.sampled_from(HOMES),
    region=st.sampled_from(REGIONS),
    clip=st.sampled_from(CLIPS),
    cycle=st.sampled_from(CYCLES),
    device=st.sampled_from(DEVICES),
    imports=st.sampled_from(IMPORTS),
    scheduler=st.booleans(),
    checkpoint=st.booleans(),
    tail=st.booleans(),
    indent=st.sampled_from(["    ", "  ", "\t"]),
    newline=st.sampled_from(["\n", "\n", "\r\n"]),
    end=st.sampled_from(["\n", "\n", ""]),
)

_IMPORTS = {
    "import torch": ("import torch", "torch.nn.functional", "torch"),
    "import torch as th": ("import torch as th", "th.nn.functional", "th"),
    "from torch import ...": (
        (
            "from torch import cuda, device as Device, load, manual_seed, nn, no_grad, optim, "
            "randint, randn, save"
        ),
        "nn.functional",
        "",
    ),
}

_REGIONS = {
    "straight": "output = MODEL(x)\nloss = criterion(output, y)",
    "one statement": "loss = criterion(MODEL(x), y)",
    "inline": "",
    "helper": "loss = compute_loss(MODEL, x, y)",
    "interleaved": (
        "output = MODEL(x)\nseen += len(x)\npred = output.argmax(1)\nloss = criterion(output, y)"
    ),
    "branches": (
        "if seen:\n    output = MODEL(x.flip(0))\nelse:\n    output = MODEL(x)\nloss = "
        "criterion(output, y)"
    ),
    "inner loop": (
        "loss = 0.0\nfor part, label in zip(x, y):\n    loss += criterion(MODEL(part), label)"
    ),
    "target": (
        "with no_grad():\n    target = MODEL(x).argmax(1)\nloss = criterion(MODEL(x), target)"
    ),
    "comments": (
        "# the forward\noutput = MODEL(x)  # logits\n\n# the loss\nloss = criterion(output, y)"
    ),
    "several lines": (
        "output = MODEL(\n    x,\n)\nloss = (criterion(output, y)\n        + 0.1 * "
        "output.abs().mean())"
    ),
}

_CLIPS = {
    "none": "",
    "norm": "nn.utils.clip_grad_norm_(MODEL.parameters(), 1.0)",
    "value": "nn.utils.clip_grad_value_(MODEL.parameters(), 0.5)",
    "conditional": "if clip > 0:\n    nn.utils.clip_grad_norm_(MODEL.parameters(), clip)",
    "own": "clip_gradient(OPTIMIZER, 0.5)",
    "logged": "norms = [p.grad.norm().item() for p in MODEL.parameters()]",
}

_TOP = """
IMPORTS

manual_seed(0)
data = [(randn(4, 6), randint(0, 3, (4,))) for _ in range(4)]
clip = 1.0
criterion = nn.CrossEntropyLoss()
SETUP

def compute_loss(net, x, y):
    output = net(x)
    return F.cross_entropy(output, y)


def clip_gradient(optimizer, bound):
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad.data.clamp_(-bound, bound)

"""

_MADE = "MODEL = nn.Linear(6, 3)MOVED\nEXTRA = nn.Linear(6, 3)MOVED\n"
_OPTIMIZERS = "OPTIMIZER = optim.SGD(MODEL.parameters(), lr=0.1)\n"
_SECOND = "SECOND = optim.Adam(EXTRA.parameters(), lr=0.01)\n"
_PARTS = ("MODEL", "EXTRA", "OPTIMIZER", "SECOND", "SCHEDULER")

_LOOP = """
seen = 0
total = 0.0
for epoch in range(2):
    for index, (x, y) in enumerate(data):
        x, y = xMOVED, yMOVED
BATCH
"""


def program(shape: Shape) -> str:
    """The text of a program of this shape; it runs, on a CPU too where the device is asked for."""
    text = _at_home(shape)
    text = _spelled(text, shape)
    lines = (_reindented(line, shape.indent) for line in text.strip().split("\n"))
    return shape.newline.join(lines) + (shape.newline if shape.end else "")


def _at_home(shape: Shape) -> str:
    made = _MADE + _OPTIMIZERS + (_SECOND if _has_second(shape) else "") + _scheduler_made(shape)
    loop, saved = _loop(shape), _saved(shape)
    names = ", ".join(part for part in _PARTS if part in made)
    if shape.home == "self":
        return _named(_TOP + _trainer(made, loop, saved), "self.")
    bodies = {
        "module": made + loop + saved,
        "local": _called("train", made + loop + saved),
        "global": made + _called("train", loop) + saved,
        "parameter": _function("train", names, _batches(loop))
        + _called("main", f"{made}{_EPOCHS}    train({names})\n{saved}"),
        "two hops": _function("train", names, _batches(loop))
        + _function("fit", names, f"{_EPOCHS}    train({names})\n")
        + _called("main", f"{made}fit({names})\n{saved}"),
        "enclosing": _called("main", made + _called("train", loop) + saved),
    }
    return _named(_TOP + bodies[shape.home], "")


_EPOCHS = "for epoch in range(2):\n"


def _batches(loop: str) -> str:
    """The same loop over the batches of one epoch."""
    head, _, rest = loop.partition(_EPOCHS)
    return head + textwrap.dedent(rest)


def _trainer(made: str, loop: str, saved: str) -> str:
    methods = {"__init__": made, "train": loop, **({"store": saved} if saved else {})}
    defined = "\n".join(
        _function(name, "self", body).strip("\n") + "\n" for name, body in methods.items()
    )
    calls = "trainer = Trainer()\ntrainer.train()\n" + ("trainer.store()\n" if saved else "")
    return f"\n\nclass Trainer:\n{textwrap.indent(defined, '    ')}\n\n{calls}"


def _named(text: str, prefix: str) -> str:
    return re.sub("|".join(_PARTS), lambda found: prefix + found[0].lower(), text)


def _loop(shape: Shape) -> str:
    steps = _cycle(shape) + (
        ["total += loss.item()"] if shape.tail and shape.region != "inline" else []
    )
    threaded = shape.home in ("parameter", "two hops")
    scheduler = "    SCHEDULER.step()\n" if shape.scheduler and not threaded else ""
    return _LOOP.replace("BATCH", textwrap.indent("\n".join(steps), " " * 8)) + scheduler


def _cycle(shape: Shape) -> list[str]:
    """The statements of one batch."""
    region = [_REGIONS[shape.region]] if shape.region != "inline" else []
    loss = "criterion(MODEL(x), y)" if shape.region == "inline" else "loss"
    clip = [_CLIPS[shape.clip]] if _CLIPS[shape.clip] else []
    step = [*clip, "OPTIMIZER.step()"]
    zero = ["OPTIMIZER.zero_grad()"]
    if shape.cycle == "zero before backward":
        return [*region, *zero, f"{loss}.backward()", *step]
    if shape.cycle == "zero at the end":
        return [*region, f"{loss}.backward()", *step, *zero]
    if shape.cycle == "accumulated":
        scaled = (
            f"({loss} / 2).backward()"
            if shape.region == "inline"
            else "loss = loss / 2\nloss.backward()"
        )
        boundary = "if (index + 1) % 2 == 0:\n" + textwrap.indent("\n".join([*step, *zero]), "    ")
        return [*region, scaled, boundary]
    if shape.cycle == "two optimizers":
        region = [*region, "penalty = EXTRA(x).pow(2).mean()"]
        return [
            *zero,
            "SECOND.zero_grad()",
            *region,
            f"({loss} + penalty).backward()",
            *step,
            "SECOND.step()",
        ]
    if shape.cycle == "second pair":
        other = [
            "SECOND.zero_grad()",
            "error = criterion(EXTRA(x), y)",
            "error.backward()",
            "SECOND.step()",
        ]
        return [*zero, *region, f"{loss}.backward()", *step, *other]
    return [*zero, *region, f"{loss}.backward()", *step]


def _has_second(shape: Shape) -> bool:
    return shape.cycle in ("two optimizers", "second pair")


def _scheduler_made(shape: Shape) -> str:
    return "SCHEDULER = optim.lr_scheduler.StepLR(OPTIMIZER, 1)\n" if shape.scheduler else ""


def _saved(shape: Shape) -> str:
    if not shape.checkpoint:
        return ""
    return (
        'save({"model": MODEL.state_dict(), "optimizer": OPTIMIZER.state_dict()}, '
        '"checkpoint.pt")\n'
        'checkpoint = load("checkpoint.pt")\n'
        'OPTIMIZER.load_state_dict(checkpoint["optimizer"])\n'
    )


def _called(name: str, body: str) -> str:
    return _function(name, "", body) + f"\n\n{name}()\n"


def _function(name: str, parameters: str, body: str) -> str:
    return f"\n\ndef {name}({parameters}):\n" + textwrap.indent(body.strip(), "    ") + "\n"


_MOVES = {
    "device": ('device = Device("cuda" if cuda.is_available() else "cpu")\n', ".to(device)"),
    "string": ('device = "cuda" if cuda.is_available() else "cpu"\n', ".to(device)"),
    "cuda": ("", ".cuda()"),
    "flag": ("use_cuda = cuda.is_available()\n", ""),
}


def _spelled(text: str, shape: Shape) -> str:
    imports, functional, torch = _IMPORTS[shape.imports]
    setup, moved = _MOVES[shape.device]
    text = text.replace("SETUP\n", setup)
    if shape.device == "flag":
        text = _moved_under_flag(text)
    text = text.replace("MOVED", moved)
    if torch:
        text = re.sub(
            r"(?<![\w.])(randn|randint|manual_seed|cuda\.is_available|no_grad|save|load)\(",
            rf"{torch}.\1(",
            text,
        )
        text = text.replace("Device(", f"{torch}.device(")
        text = re.sub(r"(?<![\w.])(nn|optim)\.", rf"{torch}.\1.", text)
    return text.replace("F.cross_entropy", f"{functional}.cross_entropy").replace(
        "IMPORTS", imports
    )


def _moved_under_flag(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        lines.append(line.replace("MOVED", ""))
        indent = line[: len(line) - len(line.lstrip())]
        if line.lstrip().startswith("x, y = x"):
            lines += [f"{indent}if use_cuda:", f"{indent}    x, y = x.cuda(), y.cuda()"]
        elif "= nn.Linear(6, 3)MOVED" in line:
            target = line.split("=")[0].strip()
            lines += [f"{indent}if use_cuda:", f"{indent}    {target} = {target}.cuda()"]
    return "\n".join(lines)


def _reindented(line: str, indent: str) -> str:
    stripped = line.lstrip(" ")
    return indent * ((len(line) - len(stripped)) // 4) + stripped
