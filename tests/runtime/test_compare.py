"""Numbers out of traces: bands, medians, and what counts as equal."""

from __future__ import annotations

import math

import pytest

from amp_migrate.runtime.check import Limits
from amp_migrate.runtime.checks import amp_on
from amp_migrate.runtime.compare import (
    Curve,
    band,
    largest_difference,
    median,
    same_losses,
    spread,
)
from amp_migrate.runtime.endings import completed
from amp_migrate.runtime.loss_checks import first_loss, loss_curve
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.settling import scale_checks, settle
from amp_migrate.runtime.speed import speed_checks
from amp_migrate.runtime.trace import Trace, finite

FALLING = tuple(1 / (1 + i / 10) for i in range(40))


def curve(values: tuple[float, ...]) -> Curve:
    return Curve("train.py:3", values)


FALLING_CURVE = curve(FALLING)


def excess(amp: tuple[float, ...], *noise: Curve, base: Curve = FALLING_CURVE) -> float:
    return band(FALLING_CURVE, base, noise, curve(amp), 3, 0.01).excess


def test_a_curve_inside_the_noise_passes_and_one_outside_does_not() -> None:
    noisy = curve(tuple(x * 1.01 for x in FALLING))
    assert excess(noisy.values, noisy) < 1
    assert excess(tuple(x * 1.1 for x in FALLING), noisy) > 1


def test_skipped_steps_are_held_against_a_float32_run_without_them() -> None:
    late = (FALLING[0],) * 5 + FALLING[:-5]
    assert excess(late) > 1
    assert excess(late, base=curve(late)) == 0
    assert excess(FALLING, base=curve(late)) > 1


def test_a_loss_that_is_not_finite_is_outside() -> None:
    assert excess((*FALLING[:-1], math.nan)) == math.inf


def test_the_attempts_that_were_skipped_are_counted_by_optimizer() -> None:
    trace = Trace(optimizers=[0, 1, 0, 1, 0], taken=[False, True, True, False, False])
    assert trace.left_out == [(0, 0), (1, 1), (0, 2)]


def test_losses_are_equal_bit_for_bit_or_not() -> None:
    assert same_losses(Trace(losses=[0.1, math.nan]), Trace(losses=[0.1, math.nan]))
    assert not same_losses(Trace(losses=[0.1]), Trace(losses=[0.1 + 2**-55]))
    assert not same_losses(Trace(losses=[0.0]), Trace(losses=[-0.0]))


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.25),
        ([1.0], [1.0, 2.0], math.inf),
        ([1.0], [math.nan], math.inf),
        ([], [], 0.0),
    ],
)
def test_largest_difference(one: list[float], other: list[float], difference: float) -> None:
    assert largest_difference(one, other) == difference


def test_median_and_spread() -> None:
    assert median([3, 1, 2]) == 2
    assert spread([1.0] * 10) == 0
    assert spread([1.0, 2.0, 3.0]) > spread([1.9, 2.0, 2.1])


def test_what_is_not_finite_is_null_in_json() -> None:
    assert finite({"a": [1.0, math.inf], "b": (math.nan, "x")}) == {
        "a": [1.0, None],
        "b": [None, "x"],
    }


def timed(seconds: float, wobble: float = 0.0) -> Trace:
    return Trace(step_seconds=[seconds * (1 + wobble * (-1) ** i) for i in range(20)], regions=1)


@pytest.mark.parametrize(
    ("fast", "wobble", "word"),
    [
        (0.5, 0.0, "2.00 times as fast"),
        (0.99, 0.2, "no gain"),
        (2.0, 0.0, "a loss: 2.00 times slower"),
    ],
)
def test_a_gain_below_the_noise_is_none_and_a_loss_is_a_loss(
    fast: float, wobble: float, word: str
) -> None:
    runs = Runs(
        {
            "original": timed(1.0, wobble),
            "original-again": timed(1.0, wobble),
            "amp": timed(fast, wobble),
        }
    )
    (check,) = speed_checks(runs, "cuda", Limits())
    assert word in check.message
    assert check.verdict == "pass"
    (strict,) = speed_checks(runs, "cuda", Limits(min_speedup=1.5))
    assert strict.verdict == ("pass" if fast == 0.5 else "fail")


def test_speed_on_the_cpu_is_not_called_measured() -> None:
    runs = Runs({"original": timed(1.0), "original-again": timed(1.0), "amp": timed(0.5)})
    (check,) = speed_checks(runs, "cpu", Limits())
    assert (check.verdict, check.measured) == ("skip", None)


def test_a_scale_that_never_settles_fails() -> None:
    trace = Trace(
        dtype="float16",
        optimizers=[0] * 30,
        taken=[False] * 30,
        scales=[2.0 ** (16 - i) for i in range(30)],
    )
    found = {
        check.name: check.verdict
        for check in amp_on(Runs({"original": Trace(), "amp": trace}), "amp", Limits())
    }
    assert found["amp: scale settled"] == found["amp: skipped steps"] == "fail"


def falling(start: float, steps: int, fits: float) -> Trace:
    """A run whose scale halves until it `fits`."""
    scales = [start]
    while len(scales) < steps:
        scales.append(scales[-1] / 2 if scales[-1] > fits else scales[-1])
    taken = [scale <= fits for scale in scales]
    return Trace(dtype="float16", optimizers=[0] * steps, taken=taken, scales=scales)


@pytest.mark.parametrize(
    ("steps", "fits", "verdict", "names"),
    [
        (10, 2.0**12, "pass", []),
        (10, 4.0, "pass", ["amp-from-64"]),
        (10, 0.25, "fail", ["amp-from-64"]),
        (1, 2.0**15, "pass", ["amp-from-32768"]),
        (2, 2.0**-40, "fail", ["amp-from-16384"]),
    ],
)
def test_a_scale_that_is_still_falling_is_given_time(
    steps: int, fits: float, verdict: str, names: list[str]
) -> None:
    runs = Runs({"original": Trace(), "amp": falling(2.0**16, steps, fits)})

    def again(name: str, init_scale: float, steps: int) -> Trace:
        runs.traces[name] = falling(init_scale, steps, fits)
        return runs.traces[name]

    settle("amp", runs["amp"], steps, again)
    assert list(runs.traces)[2:] == names
    found = {check.name: check for check in amp_on(runs, "amp", Limits())}
    assert found["amp: scale settled"].verdict == verdict
    assert ("it was still falling" in found["amp: scale settled"].message) == bool(names)
    assert ("--dtype bfloat16" in found["amp: scale settled"].message) == (verdict == "fail")


def test_one_overflow_may_make_two_optimizers_skip() -> None:
    one = falling(2.0**16, 30, 2.0**2)
    both = Trace(
        dtype="float16",
        optimizers=[0, 1] * 30,
        taken=[taken for taken in one.taken for _ in range(2)],
        scales=[scale for scale in one.scales for _ in range(2)],
    )
    for trace in (one, both):
        found = amp_on(Runs({"original": Trace(), "amp": trace}), "amp", Limits())
        skipped = next(check for check in found if check.name == "amp: skipped steps")
        assert (skipped.verdict, skipped.measured) == ("pass", 14)


def test_a_crash_is_told_with_how_it_ended_and_its_last_line() -> None:
    (check,) = completed(
        "amp", Trace(status="crashed", error="killed by SIGKILL\nCUDA out of memory"), None
    )
    assert check.verdict == "fail"
    assert check.message == (
        "the amp run did not come to an end: killed by SIGKILL; its last line: CUDA out of memory"
    )


def test_steps_of_several_optimizers_are_all_told() -> None:
    one = Trace(status="finished", optimizers=[0, 0], losses=[1.0, 1.0])
    two = Trace(status="finished", optimizers=[0, 0, 1], losses=[1.0, 1.0, 1.0])
    told = [check.message for trace in (one, two) for check in completed("amp", trace, None)]
    assert told == [
        "2 steps, 2 backward calls",
        "3 steps of 2 optimizers, 2 at most of one, 3 backward calls",
    ]


@pytest.mark.parametrize(("loss", "words"), [(math.nan, "no scale helps"), (1.0, "--dtype")])
def test_a_scale_below_1_is_explained(loss: float, words: str) -> None:
    trace = Trace(
        optimizers=[0] * 4, taken=[False] * 4, scales=[1.0, 0.5, 0.25, 0.125], losses=[loss] * 4
    )
    settled = list(scale_checks("amp", trace, trace, Limits()))[-1]
    assert settled.verdict == "fail"
    assert words in settled.message


def test_a_first_loss_that_is_not_finite_is_said_to_be_the_reason() -> None:
    losses = {"original": 1.0, "amp": math.inf}
    runs = Runs(
        {
            name: Trace(losses=[loss], loss_sites=["train.py:3"], loss_steps=[0])
            for name, loss in losses.items()
        }
    )
    found = first_loss(runs, "amp", Limits())
    assert (found.verdict, "inf or NaN in the run amp" in found.message) == ("skip", True)


@pytest.mark.parametrize(("dtype", "verdict"), [("float16", "fail"), ("bfloat16", "pass")])
def test_the_noise_of_bfloat16_is_coarser_than_the_disturbance(dtype: str, verdict: str) -> None:
    """It is measured with a run that is disturbed as float16 rounds."""
    factors = {"original": 1.0, "perturbed": 1.02, "amp": 1.15}
    sites = ["train.py:3"] * len(FALLING)
    runs = Runs(
        {
            name: Trace(losses=[factor * x for x in FALLING], loss_sites=sites, dtype=dtype)
            for name, factor in factors.items()
        }
    )
    assert loss_curve(runs, "amp", Limits()).verdict == verdict
