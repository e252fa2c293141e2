"""Which files can hold a training loop at all, told from their bytes: most files are never decoded."""

from __future__ import annotations

import re

# `loss.backward(`, also with a line broken inside, and `from torch.autograd import backward`.
_GAP = rb"(?:\s|\\\r?\n)*"
_BACKWARD = re.compile(rb"\." + _GAP + rb"backward" + _GAP + rb"\(|\bimport\b[^\n]*\bbackward\b")


def may_train(data: bytes) -> bool:
    """Tell whether these bytes can hold a call of `backward`; false alarms cost time, missed alarms cost a loop."""
    return b"backward" in data and _BACKWARD.search(data) is not None


def first_backward(data: bytes) -> int:
    """The 1-based line of the first call of `backward` in `data`, 1 where there is none."""
    found = _BACKWARD.search(data)
    return data.count(b"\n", 0, found.start() if found else 0) + 1
