"""What autocast and GradScaler of the oldest torch that a program may run on know of a device."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.config import Settings
from amp_migrate.planner.refusal import Refusal
from amp_migrate.torch_facts.devices import (
    DEVICES,
    Device,
    Version,
    device,
)


def unsupported(settings: Settings) -> frozenset[str]:
    """The devices that the oldest torch of the program has no mixed precision for."""
    return frozenset(
        row.name
        for row in DEVICES
        if next(_lacking(row, settings), None) is not None
    )


def refuse_unasked(name: str, settings: Settings, node: ast.AST) -> None:
    """Raise Refusal where nothing tells whether the device that `--device` names has bfloat16."""
    row = device(name)
    if row is None or settings.dtype != "auto" or name == "cuda":
        return
    since = row.asks_bfloat16
    if since is None and settings.switch is None:
        why = f"nothing tells whether {name} computes bfloat16: name the dtype"
        raise Refusal("unsupported-shape", node, why)
    _refuse_older(name, "is_bf16_supported", since, settings, node)


def refuse_unsupported(name: str, settings: Settings, node: ast.AST) -> None:
    """Raise Refusal where the oldest torch that the program may run on lacks what AMP needs on a
    device.
    """
    row = device(name)
    for what, since in _needs(row, settings.dtype) if row is not None else ():
        _refuse_older(name, what, since, settings, node)


def _refuse_older(
    name: str,
    what: str,
    since: Version | None,
    settings: Settings,
    node: ast.AST,
) -> None:
    oldest = settings.target_torch
    if since is not None and oldest is not None and oldest < since:
        raise Refusal(
            "torch-too-old",
            node,
            f"{what} knows {name} since torch {since[0]}.{since[1]}, and the program may run on "
            f"{oldest[0]}.{oldest[1]}: raise the bound, or pass --target-torch",
        )


def _lacking(row: Device, settings: Settings) -> Iterator[tuple[str, Version]]:
    """What came later than the oldest torch."""
    oldest = settings.target_torch
    for what, since in _needs(row, settings.dtype):
        if since is not None and oldest is not None and oldest < since:
            yield what, since


def _needs(row: Device, dtype: str) -> Iterator[tuple[str, Version | None]]:
    yield "autocast", row.autocast
    if dtype != "bfloat16":
        yield "GradScaler", row.scaler
    if dtype != "float16":
        yield "autocast to bfloat16", row.bfloat16
