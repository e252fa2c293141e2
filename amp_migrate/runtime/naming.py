"""Names of parameters as the user's model calls them."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterable
from typing import Any

import torch


def root_modules() -> list[torch.nn.Module]:
    """Live modules that are part of no other live module, in the order of their making."""
    alive = [
        found
        for found in gc.get_objects()
        if issubclass(type(found), torch.nn.Module)
    ]
    children = {
        id(child)
        for module in alive
        for child in module.__dict__.get("_modules", {}).values()
    }
    return [
        module
        for module in alive
        if id(module) not in children and "_modules" in module.__dict__
    ]


def module_names(wanted: Iterable[Any]) -> dict[int, str]:
    """Names, by id, of the modules in the models that own the `wanted` parameters."""
    owners = _owners(list(wanted))
    names: dict[int, str] = {}
    for root, prefix in zip(owners, _prefixes(owners), strict=True):
        for name, module in root.named_modules():
            names.setdefault(
                id(module),
                ".".join(filter(None, (prefix, name))) or type(root).__name__,
            )
    return names


def parameter_names(parameters: Iterable[Any], taken: set[str]) -> list[str]:
    """Names for `parameters`: as their modules call them, the same in every run, and other than
    those `taken`.
    """
    wanted = list(parameters)
    owners = _owners(wanted)
    names: dict[int, str] = {}
    for root, prefix in zip(owners, _prefixes(owners), strict=True):
        for name, parameter in root.named_parameters():
            names.setdefault(
                id(parameter), ".".join(filter(None, (prefix, name)))
            )
    result: list[str] = []
    for place, parameter in enumerate(wanted):
        name = names.get(id(parameter), f"parameter {place}")
        free = (name if i == 1 else f"{name} ({i})" for i in itertools.count(1))
        result.append(
            next(
                option
                for option in free
                if option not in taken and option not in result
            )
        )
    return result


def _owners(wanted: list[Any]) -> list[torch.nn.Module]:
    """Root modules that hold some of `wanted`, in the order of the parameters (that of live
    objects is no order).
    """
    places = {id(parameter): place for place, parameter in enumerate(wanted)}
    found = []
    for root in root_modules():
        mine = [
            places[id(parameter)]
            for parameter in root.parameters()
            if id(parameter) in places
        ]
        if mine:
            found.append((min(mine), root))
    return [root for _, root in sorted(found, key=lambda pair: pair[0])]


def _prefixes(roots: list[torch.nn.Module]) -> list[str]:
    """Nothing for a single model; else its class, numbered where several are of one class."""
    if len(roots) == 1:
        return [""]
    kinds = [type(root).__name__ for root in roots]
    return [
        f"{kind}#{kinds[:place].count(kind) + 1}"
        if kinds.count(kind) > 1
        else kind
        for place, kind in enumerate(kinds)
    ]
