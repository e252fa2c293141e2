"""Room for programs that are nested deeply: sums of ten thousand terms, a thousand `elif`.

Parsers and walks call themselves once for each level. Python stops them at a thousand; LibCST,
which is compiled, goes on until the stack of its thread is used up and takes the process with it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_STACK = 256 * 2**20
"""Bytes of address space; only what is used becomes memory."""
_LEVELS = 6_000
"""Of calls: enough for a thousand branches of one `if`; what is deeper costs more time than it is
worth, and is told."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


def with_deep_stack(
    function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T:
    """Call `function` in a thread with a large stack, and wait for its result.

    Where the system has no room for such a thread, the function is called as it is. What it raises
    is raised here; an interrupt ends the wait.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function(*args, **kwargs))
        except BaseException as error:
            errors.append(error)

    thread = _started(run)
    if thread is None:
        return function(*args, **kwargs)
    while thread.is_alive():
        thread.join(1)  # a signal that arrives in the thread is seen here
    if errors:
        raise errors[0]
    return results[0]


def _started(run: Callable[[], None]) -> threading.Thread | None:
    levels = sys.getrecursionlimit()
    try:
        before = threading.stack_size(_STACK)
    except (ValueError, RuntimeError):
        return None
    thread = threading.Thread(target=_at_depth, args=(run, levels), daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    finally:
        threading.stack_size(before)
    return thread


def _at_depth(run: Callable[[], None], levels: int) -> None:
    sys.setrecursionlimit(max(levels, _LEVELS))
    try:
        run()
    finally:
        sys.setrecursionlimit(levels)
