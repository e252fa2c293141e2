"""Each optimizer's number, in the order in which they are made: they may take their first steps in
another one from run to run, as hooks of gradients do.
"""

from __future__ import annotations

import itertools
from typing import Any

_next = itertools.count()


def number(optimizer: Any) -> int:
    """Its number, given when this is first asked; a copy has one of its own."""
    if not hasattr(optimizer, "_amp_migrate_number"):
        optimizer._amp_migrate_number = next(_next)
    found: int = optimizer._amp_migrate_number
    return found
