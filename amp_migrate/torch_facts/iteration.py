"""Iterators of Python that models and parameters go through."""

from __future__ import annotations

CHAIN = ("itertools.chain", "itertools.chain.from_iterable")
"""One after the other."""
HAND_ON = (
    *CHAIN,
    "itertools.cycle",
    "itertools.islice",
    "itertools.product",
    "itertools.tee",
    "itertools.zip_longest",
)
"""Functions that give what they were given, and call nothing of it; `itertools.starmap` does."""
