"""A process that has imported torch and forks a child for each run: a second or more saved per run.

Runs stay apart from each other as with processes of their own; nothing of the user's has been
imported before the fork, and no CUDA call has been made: CUDA cannot be used in the child of a
process that has used it. Whether that holds is tried by a child before any other.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

READY = "ready"
_PATIENCE = 0.02
_MALLOC = {-4: 0, -1: 2**31 - 1, -2: 2**26, -8: 1}
"""M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD and M_ARENA_MAX of malloc.h: nothing is mapped by itself
or given back, and all threads share one heap."""


def main(device: str) -> int:
    """Say `ready`; read paths of jobs, one per line; answer `<pid>`, then `<wait status>`; end with
    the input.
    """
    torch = import_module("torch")
    # The first optimizer of a process imports half of the compiler: seconds, better spent before
    # the fork.
    torch.optim.SGD([torch.zeros(1)], lr=0.1)
    if device == "cpu":
        import_module("amp_migrate.runtime.simulated_gpu").install()
        _keep_freed_memory()
    elif not _works_in_a_child(torch.cuda.init):
        return 1
    import_module("amp_migrate.runtime.session")
    # What is here before the fork is none of the program's: a search for its modules among all
    # objects leaves these out, and the children share their memory.
    gc.freeze()
    print(READY, flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run(line.strip())
        print(pid, flush=True)
        print(_ended(pid), flush=True)
    return 0


def _ended(pid: int) -> int:
    """The exit code of a run. Nothing is asked meanwhile: input is the end of who asks, and of the
    run with it.
    """
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if select.select([sys.stdin], [], [], _PATIENCE)[0]:
            _kill(pid)
            os._exit(1)


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _keep_freed_memory() -> None:
    """Large blocks are not given back to the system to be cleared and mapped again: a model's
    temporary tensors come and go at every step. glibc's; others are left as they are.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        change = ctypes.CDLL(None).mallopt
        for parameter, value in _MALLOC.items():
            change(parameter, value)


def _works_in_a_child(function: Callable[[], object]) -> bool:
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            function()
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _run(order: str) -> None:
    from amp_migrate.runtime.child import main as run
    from amp_migrate.runtime.job import Job

    os.setsid()
    try:
        job = Job.read(Path(order))
        os.chdir(job.cwd)
        _redirect(job.folder)
        os._exit(run(order))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _redirect(folder: str) -> None:
    output = os.open(
        Path(folder) / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    )
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the program's own
