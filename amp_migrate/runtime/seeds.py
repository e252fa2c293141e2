"""The same random numbers in every run."""

from __future__ import annotations

import random


def environment(seed: int) -> dict[str, str]:
    """Variables that must be set before Python starts: hashes decide the order of sets, and so of vocabularies."""
    return {"PYTHONHASHSEED": str(seed % 2**32)}


def seed_all(seed: int) -> None:
    """Seed Python, NumPy (if installed) and torch on every device. The script's own seeds come later, and win."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy as np
    except ImportError:
        return
    np.random.seed(seed % 2**32)
