"""Programs of any size, for what has to be bounded."""

from __future__ import annotations

SCALED = """import torch
model = torch.nn.Linear(4, 4).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda")
"""


def nested(levels: int) -> str:
    """Functions that call the next one in both arms of an `if` in a loop."""
    first = (
        "def step_0(x, flag):\n    scaler.scale(model(x).sum()).backward()\n"
        "    scaler.step(optimizer)\n    scaler.update()\n"
    )
    parts = [SCALED, first]
    for level in range(1, levels + 1):
        parts.append(
            f"def step_{level}(x, flag):\n    for part in range(3):\n        if flag > {level}:\n"
            f"            step_{level - 1}(x, flag)\n        else:\n"
            f"            step_{level - 1}(x, flag)\n"
        )
    return "".join([*parts, f"for x in loader:\n    step_{levels}(x, 1)\n"])


def chain(links: int) -> str:
    """One long `if`/`elif` that steps in every branch."""
    parts = [SCALED, "def train(kind, x):\n    loss = model(x).sum()\n"]
    for link in range(links):
        parts.append(
            f"    {'elif' if link else 'if'} kind == {link}:\n"
            f"        scaler.scale(loss * {link}).backward()\n"
            "        scaler.step(optimizer)\n        scaler.update()\n"
        )
    return "".join([*parts, "for x in loader:\n    train(0, x)\n"])


def flags(count: int) -> str:
    """Clipping before unscaling, under one of many flags."""
    parts = [SCALED, "def train(args, x):\n    scaler.scale(model(x).sum()).backward()\n"]
    for flag in range(count):
        parts.append(
            f"    if args.f{flag}:\n"
            f"        torch.nn.utils.clip_grad_norm_(model.parameters(), {flag})\n"
        )
    end = "    scaler.step(optimizer)\n    scaler.update()\nfor x in loader:\n    train(0, x)\n"
    return "".join([*parts, end])


def loops(depth: int) -> str:
    """Loops in loops."""
    parts = [SCALED]
    for level in range(depth):
        parts.append("    " * level + f"for i{level} in range(3):\n")
    inner = "    " * depth
    lines = [
        "scaler.scale(model(x).sum()).backward()",
        "if i0:",
        "    continue",
        "scaler.step(optimizer)",
        "scaler.update()",
    ]
    return "".join([*parts, *(f"{inner}{line}\n" for line in lines)])


def recursive(count: int) -> str:
    """Functions each of which calls four others."""
    parts = [SCALED]
    for one in range(count):
        calls = "".join(
            f"    if x > {other}:\n        f{(one + other + 1) % count}(x)\n" for other in range(4)
        )
        parts.append(
            f"def f{one}(x):\n    scaler.scale(model(x).sum()).backward()\n{calls}"
            "    scaler.step(optimizer)\n    scaler.update()\n"
        )
    return "".join([*parts, "for x in loader:\n    f0(x)\n"])
