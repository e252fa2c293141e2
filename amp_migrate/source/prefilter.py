"""Which files can hold a training loop at all, told from their bytes: most files are never decoded."""

from __future__ import annotations

import re

# A literal first, so that the search runs at the speed of a byte search. A line may be broken inside the call.
_BACKWARD = re.compile(rb"backward\b(?:\s|\\\r?\n)*(\(?)")
# Packages of `model.frameworks`, and what makes a trainer of each.
_TRAINERS = (
    (b"accelerate", (b"Accelerator(",)),
    (b"lightning", (b"Trainer(", b"Fabric(")),
    (b"transformers", (b"TrainingArguments(",)),
    (b"trl", (b"Config(",)),
    (b"deepspeed", (b"deepspeed.initialize(",)),
    (b"ignite", (b"create_supervised_trainer(",)),
    (b"monai", (b"SupervisedTrainer(", b"GanTrainer(", b"AdversarialTrainer(")),
    (b"fastai", (b"earner(",)),
)
_OLD_AMP = re.compile(rb"torch\.(?:cuda|cpu)\.amp|from[ \t]+torch\.(?:cuda|cpu)[ \t]+import\b[^\n]*\bamp\b")
_BEFORE_A_NAME = b" \t\f\r\n\\"


def is_notebook(path: str) -> bool:
    """Whether a file is a Jupyter notebook, by its name."""
    return path.endswith(".ipynb")


def may_train(data: bytes, notebook: bool = False) -> bool:
    """Tell whether these bytes can hold a call of `backward`; false alarms cost time, missed alarms cost a loop.

    The lines of a notebook are strings in JSON, so there the word is enough.
    """
    if b"backward" in data and (notebook or _find(data) >= 0):
        return True
    return _makes_trainer(data)


def _makes_trainer(data: bytes) -> bool:
    """Whether a framework's trainer may be made here, which runs a loop without a `backward` in sight."""
    return any(maker in data and package in data for package, makers in _TRAINERS for maker in makers)


def names_old_amp(data: bytes) -> bool:
    """Tell whether these bytes name `torch.cuda.amp` or `torch.cpu.amp`, which have new names."""
    return b"amp" in data and _OLD_AMP.search(data) is not None


def _find(data: bytes) -> int:
    """Where `loss.backward(` or `from torch.autograd import backward` stands; -1: nowhere."""
    for found in _BACKWARD.finditer(data):
        start = found.start()
        if found[1] and data[max(start - 200, 0) : start].rstrip(_BEFORE_A_NAME).endswith(b"."):
            return start
        line = data[data.rfind(b"\n", 0, start) + 1 : start]
        if b"import" in line and b"#" not in line:
            return start
    return -1
