"""A process with torch imported that forks one child per run: `python -m tests.harness.zygote`.

Reads a request per line, `{"program", "mode", "folder"}`, and answers each with `{"status"}`, the
child's exit status.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import torch

from tests.harness import child

SECONDS = 60


def main() -> None:
    torch.set_num_threads(1)
    _warm_up()
    for line in sys.stdin:
        status = _run_in_child(json.loads(line))
        print(json.dumps({"status": status}), flush=True)


def _warm_up() -> None:
    """Have torch import what the first step of an optimizer imports, a second's worth, once for
    all children.
    """
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    torch.optim.Adam([parameter]).step()


def _run_in_child(request: dict[str, str]) -> int:
    pid = os.fork()
    if pid == 0:
        signal.alarm(SECONDS)
        _redirect(os.path.join(request["folder"], "output.txt"))
        child.run(request["program"], request["mode"], request["folder"])
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _redirect(path: str) -> None:
    """Send what the program prints to a file, and give it no input."""
    output = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(nothing, 0)


if __name__ == "__main__":
    main()
