"""Devices on which everything is made without being told: `torch.set_default_device("cuda")`, `with
torch.device(name):`, `with device:`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.model.devices.expressions import Devices
from amp_migrate.model.devices.forms import DeviceValue
from amp_migrate.model.program import Program
from amp_migrate.torch_facts.devices import SETS_DEVICE


def sets_default(program: Program) -> bool:
    """Whether models may be made elsewhere than on the CPU without being told."""
    return program.remembered(sets_default, lambda: _has_default(program))


def _has_default(program: Program) -> bool:
    for scope in program.module.scopes.values():
        for call in scope.calls:
            above = program.module.parents[call]
            name = program.canonical(call.func)
            if (
                name in SETS_DEVICE
                or isinstance(above, ast.withitem)
                and (name in ("torch.device", "torch.cuda.device"))
            ):
                return True
    return any(True for _ in entered(program))


def entered(program: Program) -> Iterator[DeviceValue]:
    """The devices that blocks are entered with."""
    devices = program.remembered(entered, lambda: Devices(program))
    for node in program.module.parents:
        if isinstance(node, ast.withitem):
            scope = program.module.scope_of(node.context_expr)
            value = devices.of(node.context_expr, scope)
            if value.is_device:
                yield value


def may_be_cuda(value: DeviceValue) -> bool:
    """Whether a device may be CUDA's."""
    return any(name.rstrip(":") == "cuda" for name in value.names) or (
        value.is_device and not value.closed
    )
