"""What an optimizer or a module holds, and which optimizers are one."""

from __future__ import annotations

from typing import Any


def parameters_of(owner: Any) -> list[Any]:
    """Of an optimizer, or what passes for one, or of a module."""
    groups = getattr(owner, "param_groups", None)
    if groups is None:
        return list(owner.parameters())
    return [parameter for group in groups for parameter in group["params"]]


def is_part(optimizer: Any, *stepping: Any) -> bool:
    """Whether a step is made within that of another optimizer of the same parameters, as wrappers
    (Lookahead, say) make it: together they are one.
    """
    around = [
        one for one in stepping if one is not None and one is not optimizer
    ]
    own = set(map(id, parameters_of(optimizer))) if around else set()
    return any(own.intersection(map(id, parameters_of(one))) for one in around)
