"""A GPU that is none: the device "cuda:0" of a process, which computes on the CPU."""

from __future__ import annotations

_installed: list[bool] = []


def install() -> None:
    """Simulate a GPU in this process, for good.

    Raises RuntimeError where this build of torch does not let it.
    """
    if _installed:
        return
    from amp_migrate.runtime.simulated_gpu import (
        answers,
        guard,
        kernels,
        storage,
    )

    guard.pretend()
    answers.install()
    kernels.install()
    storage.install()
    _installed.append(True)


def has_left_behind() -> bool:
    """Whether a tensor stayed on the CPU that a GPU would have held."""
    if not _installed:
        return False
    from amp_migrate.runtime.simulated_gpu import memory

    return bool(memory.left_behind)


def own() -> None:
    """Call it in the process that runs the program, after `install`."""
    from amp_migrate.runtime.simulated_gpu import answers

    answers.own()
