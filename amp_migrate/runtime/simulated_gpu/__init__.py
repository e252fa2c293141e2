"""A GPU that is none: the device "cuda:0" of a process, which computes on the CPU."""

from __future__ import annotations

import os

_installed: list[bool] = []


def install() -> None:
    """Simulate a GPU in this process, for good; one that is there is hidden: torch keeps the guard
    of a GPU that it counts.

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

    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    guard.pretend()
    answers.install()
    kernels.install()
    storage.install()
    _installed.append(True)


def own() -> None:
    """Call it in the process that runs the program, after `install`."""
    from amp_migrate.runtime.simulated_gpu import answers

    answers.own()
