"""Checkpoints that a program saves: where it could be stopped and started again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


class Saves:
    """Counts calls of `torch.save` with an optimizer's state; `place` is put down for each."""

    def __init__(self, place: Callable[[], tuple[int, int]]) -> None:
        self.places: list[tuple[int, int]] = []
        save: Callable[..., Any] = torch.save

        def saved(what: Any, *arguments: Any, **keywords: Any) -> Any:
            result = save(what, *arguments, **keywords)
            if any(map(is_optimizer, dicts(what))):
                self.places.append(place())
            return result

        setattr(torch, "save", saved)  # noqa: B010 - the types differ


def dicts(value: Any, depth: int = 4) -> Iterator[dict[str, Any]]:
    """`value` and what is in it, as far as they are dicts."""
    if isinstance(value, dict) and depth:
        yield value
        for item in value.values():
            yield from dicts(item, depth - 1)
    elif isinstance(value, (list, tuple)) and depth:
        for item in value:
            yield from dicts(item, depth - 1)


def is_optimizer(state: dict[str, Any]) -> bool:
    """Whether it is the state of an optimizer."""
    return set(state) >= {"state", "param_groups"}
