"""Limits on gradients: what rounding does passes, what it cannot do fails, and no NaN slips
through.
"""

from __future__ import annotations

import math

import pytest

from amp_migrate.runtime.check import Limits
from amp_migrate.runtime.distance import Distance, Layer
from amp_migrate.runtime.gradient_checks import gradients
from amp_migrate.runtime.runs import Runs
from amp_migrate.runtime.trace import Trace

FINE = Layer("0.weight", 0.05, 2e-7, 1.004)
NOTHING = Layer("0.bias", 1e9, 1e8, -1e9)


def failed(distance: Distance, dtype: str = "float16", **more: list[Distance]) -> set[str]:
    runs = Runs({"amp": Trace(dtype=dtype)}, {"amp": [distance], **more}, reference="float64")
    return {
        check.name.removeprefix("amp: ")
        for check in gradients(runs, "amp", Limits())
        if check.verdict != "pass"
    }


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        (Distance(0, 0, 0.03, 2e-7, 1.002, (FINE, NOTHING)), set()),
        (Distance(0, 0, 0.15, 3e-6, 0.99, (FINE,)), set()),  # a ResNet-18
        (Distance(0, 0, 0.05, 2e-7, 1.05, (FINE,)), {"gradient scale"}),
        (Distance(0, 0, 0.16, 3e-6, 1.05, (FINE,)), {"gradient scale"}),
        (
            Distance(0, 0, 0.02, 2e-7, 1.0, (FINE, Layer("2.bias", 2.0, 2e-7, -1.0))),
            {"gradients of layers"},
        ),
        (
            Distance(0, 0, 0.02, 2e-7, 1.0, (FINE, Layer("2.bias", 0.1, 2e-7, 1.1))),
            {"gradients of layers"},
        ),
        # A sum of one value that nearly cancels: rounding alone may take half of it, not of many.
        (Distance(0, 0, 0.02, 2e-7, 1.0, (FINE, Layer("9.bias", 0.48, 2.8e-5, 0.52))), set()),
        (
            Distance(0, 0, 0.02, 2e-7, 1.0, (FINE, Layer("9.bias", 0.48, 2.8e-5, 0.52, 64))),
            {"gradients of layers"},
        ),
        (
            Distance(0, 0, 0.02, 2e-7, 1.0, (FINE, Layer("9.bias", 2.0, 2.8e-5, -1.0))),
            {"gradients of layers"},
        ),
        (Distance(0, 0, 0.5, 2e-7, 1.0, (FINE,)), {"gradients"}),
        (Distance(0, 0, math.nan, 2e-7, math.nan, (FINE,)), {"gradients", "gradient scale"}),
        (
            Distance(0, 0, 0.0, 2e-7, 1.0, (FINE, Layer("2.bias", math.nan, 2e-7, math.nan))),
            {"gradients of layers"},
        ),
        (
            Distance(0, 0, 0.0, 2e-7, 1.0, (NOTHING,)),
            {"gradients of layers"},
        ),  # not looked at, so not passed
    ],
)
def test_limits(distance: Distance, expected: set[str]) -> None:
    assert failed(distance) == expected


@pytest.mark.parametrize(("baseline", "told"), [(0.0013, True), (2e-7, False)])
def test_a_failure_that_rounding_explains_says_so(baseline: float, told: bool) -> None:
    off = Distance(0, 0, 13.0, baseline, 1.0, (FINE,))
    runs = Runs({"amp": Trace(dtype="float16")}, {"amp": [off]}, reference="float64")
    check = next(gradients(runs, "amp", Limits()))
    assert check.verdict == "fail"
    assert ("with --metric whether" in check.message) == told


def test_a_second_optimizer_sees_parameters_that_differ_already() -> None:
    off = Distance(1, 0, 0.3, 2e-7, 1.05, (FINE,))
    assert failed(off) == {"gradients", "gradient scale"}
    assert failed(off, perturbed=[Distance(1, 0, 0.1, 0.0, 0.98)]) == set()


def test_bfloat16_is_coarser() -> None:
    off = Distance(0, 0, 0.3, 2e-7, 1.06, (FINE,))
    assert failed(off) == {"gradients", "gradient scale"}
    assert failed(off, "bfloat16") == set()


def test_no_gradients_are_no_pass() -> None:
    runs = Runs({"amp": Trace(dtype="float16")}, {"amp": []}, reference="float64")
    assert [check.verdict for check in gradients(runs, "amp", Limits())] == ["skip"]
