"""The same random numbers in every run."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterable
from typing import Any


def environment(seed: int) -> dict[str, str]:
    """Variables that must be set before Python starts: hashes decide the order of sets, and so of
    vocabularies.
    """
    return {"PYTHONHASHSEED": str(seed % 2**32)}


def seed_all(seed: int) -> None:
    """Seed Python, NumPy (if installed) and torch on every device. The script's own seeds come
    later, and win.
    """
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy as np
    except ImportError:
        return
    np.random.seed(seed % 2**32)


def repeat_seeds(known: Iterable[int]) -> list[int]:
    """From now on give the program's own seeds out of `known`, in order, and then what it asks for.

    Returns the list of those in use, which grows. A program that seeds itself from the clock draws
    other numbers in every run; with its own first seeds it can be compared.
    """
    import torch

    used: list[int] = []
    waiting = list(known)
    give: Any = torch.manual_seed

    def next_seed(asked: int | None) -> int:
        fresh = int.from_bytes(os.urandom(4), "big") if asked is None else asked
        used.append(waiting.pop(0) if waiting else fresh)
        return used[-1]

    def manual_seed(seed: Any) -> Any:
        return give(next_seed(int(seed)))

    def seed() -> int:
        value = next_seed(None)
        give(value)
        return value

    for module in (torch, torch.random):
        module.manual_seed = manual_seed  # type: ignore[attr-defined]
        module.seed = seed  # type: ignore[attr-defined]
    _wrap(random, "seed", next_seed)
    if "numpy" in sys.modules:
        numpy: Any = sys.modules["numpy"]
        _wrap(numpy.random, "seed", next_seed)
        _wrap(numpy.random, "default_rng", next_seed)
    return used


def _wrap(
    module: Any, name: str, next_seed: Callable[[int | None], int]
) -> None:
    """Seeds that are integers, or left out; others are the program's affair."""
    function = getattr(module, name)

    def seeded(seed: Any = None, *more: Any, **named: Any) -> Any:
        if seed is None or isinstance(seed, int):
            seed = next_seed(seed)
        return function(seed, *more, **named)

    setattr(module, name, seeded)
