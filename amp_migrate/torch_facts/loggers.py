"""Classes that write what a program logs, and their methods that show a number: each turns a half
tensor into a Python float.
"""

from __future__ import annotations

SHOWS_NUMBERS: dict[str, tuple[str, ...]] = {
    "torch.utils.tensorboard.SummaryWriter": ("add_scalar",),
    "torch.utils.tensorboard.writer.SummaryWriter": ("add_scalar",),
    "tensorboardX.SummaryWriter": ("add_scalar",),
}
