"""What the rewrite gains in time and memory, and whether that is more than noise."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.runtime.check import Check, Limits, Verdict
from amp_migrate.runtime.compare import median, spread
from amp_migrate.runtime.runs import Runs


def speed_checks(runs: Runs, device: str, limits: Limits) -> Iterator[Check]:
    """Steps per second of each AMP run against float32, and against TF32 where it was run."""
    for name in runs.amp():
        for base in ("original", "tf32"):
            if base in runs:
                yield _speed(runs, name, base, device, limits)


def _speed(
    runs: Runs, name: str, base: str, device: str, limits: Limits
) -> Check:
    label, against = (
        f"{name}: speed",
        "float32" if base == "original" else "TF32",
    )
    slow, fast = runs[base].step_seconds, runs[name].step_seconds
    if device == "cpu":
        return Check(
            label,
            "skip",
            None,
            None,
            "not measured: float16 on the CPU says nothing about a GPU",
        )
    if len(slow) < 5 or len(fast) < 5:
        return Check(
            label, "skip", None, None, "too few steps to time; raise --steps"
        )
    ratio, noise = median(slow) / median(fast), noise_of(runs, slow, fast)
    low = limits.min_speedup if base == "original" else None
    verdict: Verdict = "fail" if low is not None and ratio < low else "pass"
    return Check(
        f"{label} against {against}",
        verdict,
        ratio,
        low,
        _sentence(ratio, noise, against),
    )


def noise_of(runs: Runs, slow: list[float], fast: list[float]) -> float:
    """Twice the standard error of the ratio of two series, and at least what two runs of the
    original differ by.
    """
    second = "original-again" if "original-again" in runs else "original"
    first, again = (
        median(runs[name].step_seconds) for name in ("original", second)
    )
    between = (
        abs(first - again) / min(first, again) if min(first, again) > 0 else 0.0
    )
    return max(
        2 * float((spread(slow) ** 2 + spread(fast) ** 2) ** 0.5), between
    )


def _sentence(ratio: float, noise: float, against: str) -> str:
    if abs(ratio - 1) <= noise:
        return f"no gain over {against}: {ratio:.2f}x is within the noise of {noise:.0%}"
    if ratio < 1:
        return f"a loss: {1 / ratio:.2f} times slower than {against} (noise {noise:.0%})"
    return f"{ratio:.2f} times as fast as {against} (noise {noise:.0%})"


def memory_checks(runs: Runs, device: str) -> Iterator[Check]:
    """Peak memory against float32."""
    for name in runs.amp():
        before, after = (
            runs["original"].peak_memory_bytes,
            runs[name].peak_memory_bytes,
        )
        if device == "cpu" or not before:
            yield Check(
                f"{name}: memory",
                "skip",
                None,
                None,
                "not measured: the emulation on the CPU needs its own",
            )
            continue
        share = after / before
        word = (
            "less" if share < 0.98 else "more" if share > 1.02 else "no gain:"
        )
        message = f"{word} peak memory, {after / 2**20:.0f} MiB against {before / 2**20:.0f} MiB"
        yield Check(f"{name}: memory", "pass", share, None, message)
