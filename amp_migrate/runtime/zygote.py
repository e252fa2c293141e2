"""A process that has imported torch and forks a child for each run: a second or more saved per run, on the CPU.

Runs stay apart from each other as with processes of their own; nothing of the user's has been imported before the fork.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path


def main() -> int:
    """Read paths of jobs, one per line; answer `<pid>`, then `<wait status>`; end with the input."""
    torch = import_module("torch")
    # The first optimizer of a process imports half of the compiler: seconds, better spent before the fork.
    torch.optim.SGD([torch.zeros(1)], lr=0.1)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run(line.strip())
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return 0


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
    output = os.open(Path(folder) / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the program's own
