"""Whether mixed precision pays for this program, and if not, why: from the times and sizes of its
runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.runtime.compare import median
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.speed import noise_of
from amp_migrate.runtime.trace import Trace

LEAST_TIMES = 5
LAUNCH = 40e-6
"""Seconds per operator, forward and backward, below which a step is the work of the host: each of
its kernels takes about so long to launch, however fast it then is."""
WAITING = 0.3
"""Share of a step that waits for data."""
ODD = 0.3
"""Share of the weights of products whose sizes are no multiples of 8."""
MEMORY = 0.9


def pays(runs: Runs) -> Iterator[str]:
    """A table, and a sentence for each run with AMP on; nothing where nothing was timed."""
    named = {
        "original": "float32",
        "tf32": "TF32",
        **{name: runs[name].dtype for name in runs.amp()},
    }
    timed = [
        name
        for name in named
        if name in runs and len(runs[name].step_seconds) >= LEAST_TIMES
    ]
    if "original" not in timed:
        return
    for name in timed:
        yield f"{named[name]}: {_row(runs[name], runs['original'])}"
    yield from _where(runs["original"], "float32")
    for name in timed:
        if name in runs.amp():
            yield from _where(runs[name], runs[name].dtype)
            yield _sentence(runs, name)


def _row(trace: Trace, base: Trace) -> str:
    step = 1e3 * median(trace.step_seconds)
    ratio = median(base.step_seconds) / median(trace.step_seconds)
    return f"{step:.2f} ms per step ({ratio:.2f}x), {trace.peak_memory_bytes / 2**20:.0f} MiB"


def _where(trace: Trace, told: str) -> Iterator[str]:
    """Where the time of the steps goes."""
    whole = sum(trace.phase_seconds.values())
    if not whole:
        return
    shares = [
        f"{name} {part / whole:.0%}"
        for name, part in trace.phase_seconds.items()
    ]
    waits = f"; it waits for data {trace.waiting_share:.0%} of the time" * bool(
        trace.waiting_share
    )
    yield f"{told}: the time goes into {', '.join(shares)}{waits}"


def _sentence(runs: Runs, name: str) -> str:
    base, trace = _fastest(runs), runs[name]
    against = "float32" if base is runs["original"] else "TF32"
    ratio = median(base.step_seconds) / median(trace.step_seconds)
    noise = noise_of(runs, base.step_seconds, trace.step_seconds)
    told = f"{ratio:.2f} times as fast as {against}"
    if ratio > 1 + noise:
        return f"AMP ({trace.dtype}) pays here: {told}{_memory(runs, name)}"
    why = list(_reasons(runs, trace)) or [
        "its time is spent in what stays in float32"
    ]
    if _share(runs, name) < MEMORY:
        return (
            f"AMP ({trace.dtype}) pays here in memory only: {told}{_memory(runs, name)}; "
            f"because {'; '.join(why)}"
        )
    return f"AMP ({trace.dtype}) does not pay here: {told}, because {'; '.join(why)}"


def _fastest(runs: Runs) -> Trace:
    """What is to be had without AMP."""
    others = [runs[name] for name in ("original", "tf32") if name in runs]
    timed = [
        trace for trace in others if len(trace.step_seconds) >= LEAST_TIMES
    ]
    return min(timed, key=lambda trace: median(trace.step_seconds))


def _share(runs: Runs, name: str) -> float:
    before = runs["original"].peak_memory_bytes
    return runs[name].peak_memory_bytes / before if before else 1.0


def _memory(runs: Runs, name: str) -> str:
    share = _share(runs, name)
    return f", with {share:.0%} of the memory" if share < MEMORY else ""


def _reasons(runs: Runs, trace: Trace) -> Iterator[str]:
    step = median(trace.step_seconds)
    if trace.waiting_share > WAITING:
        yield f"it waits for data {trace.waiting_share:.0%} of the time"
    if trace.operators and step / trace.operators < LAUNCH:
        each = 1e6 * step / trace.operators
        yield (
            f"its kernels are too small: {each:.0f} µs per operator is what launching one costs "
            "(larger batches, torch.compile or CUDA graphs help)"
        )
    odd = odd_share(trace.parameter_shapes)
    if odd > ODD:
        yield f"{odd:.0%} of its weights have sizes that are no multiples of 8"
    if "tf32" in runs and _fastest(runs) is runs["tf32"]:
        gained = median(runs["original"].step_seconds) / median(
            runs["tf32"].step_seconds
        )
        if gained > 1.1:
            yield f"TF32 gains {gained:.2f}x already (torch.set_float32_matmul_precision('high'))"
    if trace.operators and trace.half_operators < trace.operators / 10:
        yield f"only {trace.half_operators} of {trace.operators} operators run in {trace.dtype}"


def odd_share(shapes: list[list[int]]) -> float:
    """Of the values in weights of products, those in weights that tensor cores do not take as they
    are.
    """
    sizes = [
        (_size(shape), any(side % 8 for side in shape[:2]))
        for shape in shapes
        if len(shape) > 1
    ]
    total = sum(size for size, _ in sizes)
    return sum(size for size, odd in sizes if odd) / total if total else 0.0


def _size(shape: list[int]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size
