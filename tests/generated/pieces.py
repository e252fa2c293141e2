"""The parts that layouts put in their places: setup, the body of the loop, helpers, data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

from tests.generated.axes import Spec
from tests.generated.devices import Device
from tests.generated.nets import CRITIC, net
from tests.generated.steps import (
    AFTER,
    GRADIENTS,
    NEEDS,
    SCHEDULES,
    SHAPES,
    WITHOUT_LOSS,
)

Names = Mapping[str, str]
Lines = list[str]

CRITERIA: dict[str, tuple[str, str]] = {
    "mse": ("nn.MSELoss()", "F.mse_loss"),
    "l1": ("nn.L1Loss()", "F.l1_loss"),
    "huber": ("nn.SmoothL1Loss()", "F.smooth_l1_loss"),
    "ce": ("nn.CrossEntropyLoss()", "F.cross_entropy"),
    "nll": ("nn.NLLLoss()", "F.nll_loss"),
    "bce_logits": ("nn.BCEWithLogitsLoss()", "F.binary_cross_entropy_with_logits"),
    "bce": ("nn.BCELoss()", "F.binary_cross_entropy"),
    "bce_sequential": ("nn.BCELoss()", "F.binary_cross_entropy"),
    "kl": ('nn.KLDivLoss(reduction="batchmean")', "divergence"),
    "custom": ("Closeness()", "closeness"),
    "gaussian_nll": ("GaussianLoss()", "gaussian"),
    "margin": ("nn.SoftMarginLoss()", "F.soft_margin_loss"),
}
_ENDS = {
    "nll": "return F.log_softmax(o, dim=1)",
    "kl": "return F.log_softmax(o, dim=1)",
    "bce": "return torch.sigmoid(o)",
    "bce_sequential": "return self.head(o)",
}
_TARGETS = {
    "ce": "torch.randint(0, 3, (8,))",
    "nll": "torch.randint(0, 3, (8,))",
    "bce_logits": "(torch.rand(8, 3) > 0.5).float()",
    "bce": "(torch.rand(8, 3) > 0.5).float()",
    "bce_sequential": "(torch.rand(8, 3) > 0.5).float()",
    "kl": "torch.softmax(torch.randn(8, 3), dim=1)",
    "margin": "(torch.rand(8, 3) > 0.5).float() * 2 - 1",
}
_LOSS_FUNCTIONS: dict[str, Lines] = {
    "kl": [
        "def divergence(out, y):",
        '    return F.kl_div(out, y, reduction="batchmean")',
    ],
    "custom": [
        "def closeness(out, y):",
        "    return ((out - y) ** 2).mean() + 0.1 * (out - y).abs().mean()",
        "",
        "",
        "class Closeness(nn.Module):",
        "    def forward(self, out, y):",
        "        return closeness(out, y)",
    ],
    "gaussian_nll": [
        "def gaussian(out, y):",
        "    spread = F.softplus(out[:, 2:]) + 1e-2",
        "    return (0.5 * torch.log(spread) + (out[:, :2] - y[:, :2]) ** 2 / spread).mean()",
        "",
        "",
        "class GaussianLoss(nn.Module):",
        "    def forward(self, out, y):",
        "        return gaussian(out, y)",
    ],
}
_HELPER_NAMES = {
    "helper": "run_batch",
    "helper_named_loss": "compute_loss",
    "helper_tuple": "process",
}
_OPTIMIZERS = {
    "sgd": "torch.optim.SGD({0}.parameters(), lr=0.05)",
    "adam": "torch.optim.Adam({0}.parameters(), lr=0.01)",
    "adamw": "torch.optim.AdamW({0}.parameters(), lr=0.01)",
    "rmsprop": "torch.optim.RMSprop({0}.parameters(), lr=1e-3)",
    "project_subclass": "Descent({0}.parameters(), lr=0.05)",
    "getattr": 'getattr(torch.optim, "SGD")({0}.parameters(), lr=0.05, momentum=0.5)',
    "get_optimizer": 'get_optimizer("sgd")({0}.parameters(), lr=0.05)',
    "groups": 'torch.optim.SGD([{{"params": {0}.parameters(), "lr": 0.02}}], lr=0.05)',
    "noam": "Warmup(torch.optim.SGD({0}.parameters(), lr=0.05))",
    "partial": "make_sgd({0}.parameters())",
}
_OPTIMIZER_CODE: dict[str, Lines] = {
    "project_subclass": [
        "class Descent(torch.optim.Optimizer):",
        "    def __init__(self, params, lr):",
        '        super().__init__(params, {"lr": lr})',
        "",
        "    @torch.no_grad()",
        "    def step(self, closure=None):",
        "        for group in self.param_groups:",
        '            for p in group["params"]:',
        "                if p.grad is not None:",
        '                    p.add_(p.grad, alpha=-group["lr"])',
    ],
    "get_optimizer": [
        "def get_optimizer(name):",
        '    return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[name]',
    ],
    "noam": [
        "class Warmup:",
        "    def __init__(self, optimizer):",
        "        self.optimizer = optimizer",
        "        self.count = 0",
        "",
        "    def step(self):",
        "        self.count += 1",
        "        for group in self.optimizer.param_groups:",
        '            group["lr"] = 0.05 * min(self.count ** -0.5, self.count / 4)',
        "        self.optimizer.step()",
        "",
        "    def zero_grad(self):",
        "        self.optimizer.zero_grad()",
    ],
    "partial": ["make_sgd = functools.partial(torch.optim.SGD, lr=0.05, momentum=0.1)"],
}
_CLIPPERS: dict[str, Lines] = {
    "own_clipper": [
        "def clip_gradient(optimizer, limit):",
        "    for group in optimizer.param_groups:",
        '        for param in group["params"]:',
        "            if param.grad is not None:",
        "                param.grad.data.clamp_(-limit, limit)",
    ],
    "clip_method": [
        "def clip_all(params, limit):",
        "    total = torch.sqrt(sum(p.grad.pow(2).sum() for p in params))",
        "    for p in params:",
        "        p.grad.mul_(min(1.0, limit / (float(total) + 1e-6)))",
    ],
}
EXTRAS: dict[str, Lines] = {
    "acting": [
        "class Environment:",
        "    def reset(self):",
        "        self.count = 0",
        "        return [0.1] * 6",
        "",
        "    def step(self, action):",
        "        self.count += 1",
        "        return [0.1 * self.count + 0.05 * (action % 2)] * 6, float(self.count % 2)",
    ],
    "augmented": [
        "def augment(images):",
        "    return images + 0.01 * torch.randn_like(images)",
        "",
        "",
        "def normalise(images):",
        "    return (images - images.mean(dim=0)) / (images.std(dim=0) + 1e-5)",
    ],
    "evaluate": [
        "def evaluate(model, x):",
        "    model.eval()",
        "    with torch.no_grad():",
        "        out = model(x)",
        "        score = float((out.argmax(dim=1) == 0).float().mean())",
        "    model.train()",
        "    return score",
    ],
}


@dataclass(frozen=True)
class Pieces:
    """The parts of one program."""

    spec: Spec

    @property
    def device(self) -> Device:
        return Device(self.spec)

    @property
    def objects(self) -> tuple[str, ...]:
        """What the setup makes, in this order."""
        needs = NEEDS.get(self.spec["shape"], ())
        made = ["model", *(name for name in needs if name != "optimizer2"), "optimizer"]
        made += ["optimizer2"] if "optimizer2" in needs else []
        made += ["criterion"] if self._uses_criterion else []
        return (*made, "scheduler") if SCHEDULES[self.spec["scheduler"]][0] else tuple(made)

    @property
    def _uses_criterion(self) -> bool:
        return self.spec["loss"] in (
            "criterion",
            "inline",
            "helper",
            "helper_named_loss",
            "helper_tuple",
            "project_class",
            "lambda",
        )

    # -- setup

    def setup(self, names: Names) -> Lines:
        """Make all objects."""
        made = {
            "model": lambda: self.device.made(names["model"], "Net()", names["device"]),
            "model2": lambda: self.device.made(names["model2"], "Critic()", names["device"]),
            "teacher": lambda: [
                *self.device.made(names["teacher"], "Net()", names["device"]),
                f"{names['teacher']}.load_state_dict({names['model']}.state_dict())",
            ],
            "optimizer": lambda: self.optimizer(names["optimizer"], names["model"]),
            "optimizer2": lambda: [
                f"{names['optimizer2']} = torch.optim.SGD({names['model2']}.parameters(), lr=0.02)"
            ],
            "criterion": lambda: [f"{names['criterion']} = {self._criterion()}"],
            "scheduler": lambda: [f"{names['scheduler']} = {self._scheduler(names)}"],
        }
        lines = [line for name in self.objects for line in made[name]()]
        if self.spec["gradients"] == "hook":
            lines += [
                f"for p in {names['model']}.parameters():",
                "    p.register_hook(lambda g: g.clamp(-10.0, 10.0))",
            ]
        return lines

    def optimizer(self, name: str, model: str) -> Lines:
        """Make the optimizer."""
        kind = self.spec["optimizer"]
        if kind == "conditional":
            return [
                'if os.environ.get("USE_ADAM"):',
                f"    {name} = torch.optim.Adam({model}.parameters(), lr=0.01)",
                "else:",
                f"    {name} = torch.optim.SGD({model}.parameters(), lr=0.05)",
            ]
        return [f"{name} = {_OPTIMIZERS[kind].format(model)}"]

    def _criterion(self) -> str:
        loss, function = CRITERIA[self.spec["task"]]
        if self.spec["loss"] == "lambda":
            return f"lambda out, y: {function}(out, y)"
        return "Objective()" if self.spec["loss"] == "project_class" else loss

    def _scheduler(self, names: Names) -> str:
        return Template(SCHEDULES[self.spec["scheduler"]][0]).substitute(names)

    # -- the loop

    def loop(self, names: Names, body: Sequence[str] | None = None) -> Lines:
        """Two epochs over the batches."""
        lines = ["for epoch in range(2):"]
        lines += _indented(self.batch_loop(names, body))
        return lines + _indented(self.epoch_end(names))

    def batch_loop(self, names: Names, body: Sequence[str] | None = None) -> Lines:
        """One pass over the batches."""
        inner = self.body(names) if body is None else list(body)
        return ["for i, (x, y) in enumerate(batches()):", *_indented(inner)]

    def body(self, names: Names) -> Lines:
        """One iteration."""
        lines = _spread(SHAPES[self.spec["shape"]].strip().splitlines(), self._slots())
        lines += AFTER[self.spec["after"]]
        return [self._resolved(line, names) for line in lines]

    def _slots(self) -> dict[str, Sequence[str]]:
        return {
            "@move": self.device.batch_lines("$device"),
            "@zero": [self._zero()],
            "@forward": self._forward(),
            "@grads": GRADIENTS[self.spec["gradients"]],
            "@step": ["take_step()"]
            if self.spec["layout"] == "take_step"
            else ["$optimizer.step()"],
            "@sched": self._schedule_in_batch(),
            "@log": self._log(),
        }

    def _zero(self) -> str:
        return {
            "set_to_none": "$optimizer.zero_grad(set_to_none=True)",
            "model": "$model.zero_grad()",
        }.get(self.spec["zero"], "$optimizer.zero_grad()")

    def _schedule_in_batch(self) -> Lines:
        kind = SCHEDULES[self.spec["scheduler"]][1]
        if kind == "hand":
            return ["for group in $optimizer.param_groups:", '    group["lr"] *= 0.99']
        return ["$scheduler.step()"] if kind == "batch" else []

    def _log(self) -> Lines:
        if self.spec["shape"] in WITHOUT_LOSS:
            return []
        return [
            {
                "list": "history.append(loss.item())",
                "print": 'print(f"{i}: {loss.item():.3f}")',
                "running": "history.append(float(loss) / (i + 1))",
                "tensor": "history.append(loss.detach().cpu())",
                "dictionary": 'history.append({"step": i, "loss": loss.detach().item()})',
            }[self.spec["log"]]
        ]

    def _forward(self) -> Lines:
        style = self.spec["loss"]
        if style == "model_method":
            return ["loss = $model.loss(x, y)"]
        if style in _HELPER_NAMES:
            call = f"{_HELPER_NAMES[style]}($model, $criterion, x, y)"
            return [f"out, loss = {call}" if style == "helper_tuple" else f"loss = {call}"]
        if style == "inline":
            return ["loss = @crit($model(x), y)"]
        return ["out = $model(x)", "loss = @crit(out, y)"]

    def _inline(self) -> str:
        style = self.spec["loss"]
        if style == "model_method":
            return "$model.loss(x, y)"
        if style in _HELPER_NAMES:
            call = f"{_HELPER_NAMES[style]}($model, $criterion, x, y)"
            return f"{call}[1]" if style == "helper_tuple" else call
        return "@crit($model(x), y)"

    def _resolved(self, line: str, names: Names) -> str:
        function = CRITERIA[self.spec["task"]][1]
        crit = "$criterion" if self._uses_criterion else function
        line = line.replace("@inline", self._inline()).replace("@crit", crit)
        return Template(line).substitute(names)

    def epoch_end(self, names: Names) -> Lines:
        """After each pass: the scheduler of epochs, a checkpoint."""
        kind = SCHEDULES[self.spec["scheduler"]][1]
        lines = {"epoch": ["$scheduler.step()"], "plateau": ["$scheduler.step(1.0)"]}.get(kind, [])
        return [Template(line).substitute(names) for line in (*lines, *self._checkpoint())]

    def _checkpoint(self) -> Lines:
        kind = self.spec["checkpoint"]
        saved = (
            'torch.save({"model": $model.state_dict(), "optimizer": $optimizer.state_dict(), '
            '"epoch": epoch}, "last.pt")'
        )
        load = [
            'state = torch.load("last.pt")',
            '$model.load_state_dict(state["model"])',
            '$optimizer.load_state_dict(state["optimizer"])',
        ]
        return {
            "none": [],
            "save": [saved],
            "save_load": [saved, *load],
            "functions": ["save($model, $optimizer, epoch)", "resume($model, $optimizer)"],
            "positional_states": [
                'torch.save([$model.state_dict(), $optimizer.state_dict()], "last.pt")'
            ],
        }[kind]

    # -- definitions

    def networks(self) -> Lines:
        """`class Net`, and `class Critic` where it is needed."""
        task = self.spec["task"]
        lines = net(self.spec["net"], self.spec["hazard"], self._loss_method())
        if task in _ENDS:
            at = max(k for k, line in enumerate(lines) if line == "        return o")
            lines[at] = f"        {_ENDS[task]}"
        if task == "bce_sequential":
            at = lines.index("        self.fc2 = nn.Linear(8, 3)")
            lines.insert(at, "        self.head = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid())")
        needed = "model2" in NEEDS.get(self.spec["shape"], ())
        return [*lines, "", "", *CRITIC] if needed else lines

    def _loss_method(self) -> Lines:
        if self.spec["loss"] != "model_method":
            return []
        function = CRITERIA[self.spec["task"]][1]
        return ["", "    def loss(self, x, y):", f"        return {function}(self(x), y)"]

    def helpers(self) -> list[Lines]:
        """Functions and classes that the loop calls."""
        spec, found = self.spec, list[Lines]()
        found += (
            [_OPTIMIZER_CODE[spec["optimizer"]]] if spec["optimizer"] in _OPTIMIZER_CODE else []
        )
        found += [_CLIPPERS[spec["gradients"]]] if spec["gradients"] in _CLIPPERS else []
        if spec["loss"] in _HELPER_NAMES:
            result = "out, loss" if spec["loss"] == "helper_tuple" else "loss"
            name = _HELPER_NAMES[spec["loss"]]
            found.append(
                [
                    f"def {name}(model, criterion, x, y):",
                    "    out = model(x)",
                    "    loss = criterion(out, y)",
                    f"    return {result}",
                ]
            )
        if spec["loss"] == "project_class":
            found.append(
                [
                    "class Objective(nn.Module):",
                    "    def forward(self, out, y):",
                    f"        return {CRITERIA[spec['task']][1]}(out, y)",
                ]
            )
        if spec["checkpoint"] == "functions":
            found += _SAVING
        shape = "acting" if spec["shape"] == "replay" else spec["shape"]
        found += [EXTRAS[shape]] if shape in EXTRAS else []
        return found + ([EXTRAS["evaluate"]] if spec["after"] == "evaluate" else [])

    def losses(self) -> Lines:
        """The task's own loss, which models and helpers may call."""
        return _LOSS_FUNCTIONS.get(self.spec["task"], [])

    def support(self) -> Lines:
        """Data, and what the loop keeps."""
        target = _TARGETS.get(self.spec["task"], "torch.randn(8, 3)")
        lines = [
            "history, seen, norms, kept, memory = [], [], [], [], []",
            "bank = torch.zeros(16, 3)",
        ]
        if self.spec["shape"] in ("acting", "replay"):
            lines.append("environment = Environment()")
        return [
            *lines,
            "",
            "",
            "def batches():",
            f"    return [(torch.randn(8, 6), {target}) for _ in range(4)]",
        ]


_SAVING: list[Lines] = [
    [
        "def save(model, optimizer, epoch):",
        '    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}',
        '    torch.save(state, "last.pt")',
    ],
    [
        "def resume(model, optimizer):",
        '    state = torch.load("last.pt")',
        '    model.load_state_dict(state["model"])',
        '    optimizer.load_state_dict(state["optimizer"])',
    ],
]


def _indented(lines: Sequence[str], by: int = 1) -> Lines:
    return [f"{'    ' * by}{line}" if line else line for line in lines]


indented = _indented


def _spread(lines: Sequence[str], slots: Mapping[str, Sequence[str]]) -> Lines:
    """Put the lines of the slots in their places, at the place's indentation."""
    result: Lines = []
    for line in lines:
        slot = re.fullmatch(r"(\s*)(@\w+)", line)
        if slot and slot[2] in slots:
            result += [f"{slot[1]}{one}" for one in slots[slot[2]]]
        else:
            result.append(line)
    return result
