"""What AMP gains, and whether a rewritten loop gains as much as one written by hand.

    python -m tests.bench.amp_speedup [--toy] [--steps N] [PROGRAM...]

prints a Markdown table: time of a step with its spread, peak memory and final loss for float32, TF32, rewritten
float16 and bfloat16, and the same two written by hand. Goals: rewritten within 2% of hand-written;
in the geometric mean at least 2x float32 and 1.3x TF32 on a GPU with tensor cores. Without a GPU
the programs run at toy size and nothing is called measured.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from amp_migrate.config import Settings
from amp_migrate.pipeline.migrate import migrate_text
from amp_migrate.runtime.compare import median, spread
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.needs import default_device
from amp_migrate.runtime.supervise import Limits, Supervisor
from amp_migrate.runtime.trace import Trace
from tests.bench.amp_programs import CASES, Case

MODES = (
    "float32",
    "TF32",
    "rewritten float16",
    "by hand float16",
    "rewritten bfloat16",
    "by hand bfloat16",
)
NOT_MEASURED = "not yet measured"


def programs(case: Case, toy: bool, steps: int) -> Iterator[tuple[str, str]]:
    """Every mode with its program. Raises ValueError where the migrator leaves the program alone."""
    plain = case.plain(toy, steps)
    yield "float32", plain
    yield "TF32", case.plain(toy, steps, tf32=True)
    for dtype in ("float16", "bfloat16"):
        outcome = migrate_text(plain, "program.py", Settings(dtype=dtype))
        if outcome.output is None:
            raise ValueError(f"not migrated: {outcome.loops}")
        yield f"rewritten {dtype}", outcome.output
        yield f"by hand {dtype}", case.by_hand(toy, steps, dtype)


def measure(
    case: Case, supervisor: Supervisor, device: str, toy: bool, steps: int
) -> dict[str, Trace]:
    """One run of each mode. On the CPU CUDA's rules are emulated, so losses mean something, and
    times do not.
    """
    found = {}
    plain = case.plain(toy, steps)
    for mode, text in programs(case, toy, steps):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "program.py")
            amp = mode not in ("float32", "TF32")
            script.write_text(plain if amp else text, encoding="utf-8")
            rewrites = {os.path.realpath(script): text} if amp else {}
            job = Job(
                mode, str(script), str(Path(folder, "out")), cwd=folder, rewrites=rewrites, device=device, steps=steps,
                switch=True if device == "cpu" else None, dtype=mode.split()[-1], warmup=steps // 4,
            )  # fmt: skip
            (found[mode],) = supervisor.run(job)
        if found[mode].status not in ("stopped", "finished"):
            raise RuntimeError(f"{mode}: {found[mode].error}")
    return found


def row(name: str, runs: dict[str, Trace], measured: bool) -> str:
    """One line of the table."""
    return f"| {name} | " + " | ".join(_cell(runs[mode], measured) for mode in MODES) + " |"


def _cell(trace: Trace, measured: bool) -> str:
    if not measured or trace.steps_per_second is None:
        return NOT_MEASURED
    seconds = trace.step_seconds
    return (
        f"{1e3 * median(seconds):.2f} ms ± {spread(seconds):.1%}, "
        f"{trace.peak_memory_bytes / 2**20:.0f} MiB, {trace.losses[-1]:.4f}"
    )


def gain(results: Sequence[dict[str, Trace]], mode: str, base: str) -> float:
    """Geometric mean of the speed of `mode` relative to `base`."""
    ratios = [
        (runs[mode].steps_per_second or 0) / (runs[base].steps_per_second or math.inf)
        for runs in results
    ]
    return math.exp(math.fsum(math.log(max(ratio, 1e-9)) for ratio in ratios) / len(ratios))


def heading() -> Iterator[str]:
    """Of the table."""
    yield f"| program | {' | '.join(MODES)} |"
    yield "|---" * (len(MODES) + 1) + "|"


def gains(results: Sequence[dict[str, Trace]]) -> Iterator[str]:
    """A sentence for each base, over all programs."""
    for base in ("float32", "TF32", "by hand float16"):
        ratio = gain(results, "rewritten float16", base)
        yield f"rewritten float16 against {base}, geometric mean: {ratio:.3f}x"


def table(results: dict[str, dict[str, Trace]], device: str, hardware: str) -> Iterator[str]:
    """The table in Markdown, with what it was measured on."""
    measured = device == "cuda"
    yield from heading()
    for name, runs in results.items():
        yield row(name, runs, measured)
    if measured:
        for line in gains(list(results.values())):
            yield f"\n{line}"
        yield f"\n{dt.datetime.now(tz=dt.timezone.utc).date()}, {hardware}"


def _hardware(device: str) -> str:
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return f"{name}, torch {torch.__version__}, Python {platform.python_version()}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What AMP gains.")
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help=", ".join(CASES))
    parser.add_argument("--toy", action="store_true", help="small sizes; the default without a GPU")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    device = default_device()
    toy = options.toy or device == "cpu"
    results = {}
    with Supervisor(Limits(), 0, device, lambda job, state: None) as supervisor:
        for name in options.names or CASES:
            results[name] = measure(CASES[name], supervisor, device, toy, options.steps)
    for line in table(results, device, _hardware(device)):
        print(line)


if __name__ == "__main__":
    main()
