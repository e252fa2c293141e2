"""What Python iterates with: functions that hand on what they are given, views of a mapping."""

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
BUILTINS_THAT_HAND_ON = frozenset(
    {"enumerate", "list", "reversed", "tuple", "zip"}
)
"""Python's own."""
MAPPING_VIEWS = frozenset({"items", "keys", "values"})
"""What a mapping is asked for, and no model or optimizer."""
CALLING_BUILTINS = frozenset({"map", "filter", "sorted", "min", "max"})
"""Python's own that call a function which they are given, and hand it to nobody."""
CALLING = (
    "functools.reduce",
    "itertools.accumulate",
    "itertools.dropwhile",
    "itertools.filterfalse",
    "itertools.groupby",
    "itertools.starmap",
    "itertools.takewhile",
)
"""The same of the standard library."""
