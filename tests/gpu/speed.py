"""Time and memory: float32, TF32, and mixed precision as we write it and as one does by hand."""

from __future__ import annotations

import sys

from amp_migrate.runtime.supervise import Limits, Supervisor
from amp_migrate.runtime.trace import Trace
from tests.bench.amp_programs import CASES
from tests.bench.amp_speedup import gains, heading, measure, row
from tests.gpu.arguments import WRONG, Budget, budget

STEPS = 32


def main() -> int:
    """Print a row for each program as it is done; WRONG where one could not be measured."""
    given = budget("Time and memory.")
    results: dict[str, dict[str, Trace]] = {}
    failed = 0
    print("\n".join(heading()), flush=True)
    for name in list(CASES)[-1:] if given.tiny else CASES:
        said = _measured(name, given, results)
        failed += bool(said)
        print(said or row(name, results[name], given.device == "cuda"), flush=True)
    if given.device == "cuda" and results:
        print("\n" + "\n".join(f"- {line}" for line in gains(list(results.values()))))
    return WRONG if failed else 0


def _measured(name: str, given: Budget, results: dict[str, dict[str, Trace]]) -> str:
    """Into `results`; why not, where it cannot be."""
    if given.left < 20:
        return f"| {name} | no time was left |"
    limits = Limits(timeout=max(given.left, 1))
    try:
        with Supervisor(limits, 0, given.device, lambda job, state: None) as supervisor:
            steps = 4 if given.tiny else STEPS
            results[name] = measure(CASES[name], supervisor, given.device, given.tiny, steps)
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return f"| {name} | not measured: {lines[0]} ... {lines[-1]} |"
    return ""


if __name__ == "__main__":
    sys.exit(main())
