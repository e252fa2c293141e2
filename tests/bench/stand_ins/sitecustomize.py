"""On PYTHONPATH: datasets of torchvision that are made up where a script would download them, and
an end after STOP_AFTER optimizer steps, for the time of the plain run; PRELOAD names modules that
verify's runs share.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

IMAGES = 256
SIZES = {"MNIST": (28, 28), "FashionMNIST": (28, 28), "CIFAR10": (32, 32, 3)}


class _After(importlib.abc.MetaPathFinder):
    """Does something to modules once they are imported."""

    def __init__(self, changes: dict[str, Callable[[Any], None]]) -> None:
        self._changes = changes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self._changes.get(fullname)
        spec = PathFinder.find_spec(fullname, path) if change is not None else None
        if spec is None or spec.loader is None or change is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            change(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _made_up(name: str) -> Callable[..., None]:
    """An `__init__` that needs no files: noise with a bright patch that depends on the label."""

    def init(
        self: Any,
        root: Any = None,
        train: bool = True,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
    ) -> None:
        import numpy as np
        import torch

        chance = np.random.default_rng(7 + train)
        labels = chance.integers(0, 10, IMAGES)
        pixels = chance.integers(0, 40, (IMAGES, *SIZES[name]), dtype=np.uint8)
        for picture, label in zip(pixels, labels, strict=True):
            picture[2 * label : 2 * label + 8, 6:22] += 200
        self.root, self.train = root, train
        self.transform, self.target_transform, self.transforms = transform, target_transform, None
        grey = name != "CIFAR10"
        self.data = torch.from_numpy(pixels) if grey else pixels
        self.targets = torch.from_numpy(labels) if grey else labels.tolist()

    return init


def _mnist(module: Any) -> None:
    for name in ("MNIST", "FashionMNIST"):
        getattr(module, name).__init__ = _made_up(name)


def _cifar(module: Any) -> None:
    module.CIFAR10.__init__ = _made_up("CIFAR10")


def _stopping(module: Any) -> None:
    left = int(os.environ["STOP_AFTER"])

    def step(optimizer: Any, arguments: Any, keywords: Any) -> None:
        nonlocal left
        counts[id(optimizer)] = counts.get(id(optimizer), 0) + 1
        if max(counts.values()) >= left:
            sys.stdout.flush()
            os._exit(0)

    counts: dict[int, int] = {}
    module.register_optimizer_step_post_hook(step)


def _preloading(module: Any) -> None:
    for name in os.environ["PRELOAD"].split():
        import_module(name)


changes: dict[str, Callable[[Any], None]] = {
    "torchvision.datasets.mnist": _mnist,
    "torchvision.datasets.cifar": _cifar,
}
if "STOP_AFTER" in os.environ:
    changes["torch.optim.optimizer"] = _stopping
if "PRELOAD" in os.environ:  # in the process that forks the runs, once it is ready for them
    changes["amp_migrate.runtime.session"] = _preloading
sys.meta_path.insert(0, _After(changes))


def _next() -> None:
    """The `sitecustomize` that this one stands in front of."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_next()
