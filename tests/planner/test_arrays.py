"""NumPy has no bfloat16: what a model gives under autocast is float before it becomes an array,
and nothing else is cast.
"""

from __future__ import annotations

import pytest

from tests.planner.programs import body

STEP = "loss.backward()\noptimizer.step()\n"
HALF = {
    "after the region": (
        "",
        "a = out.detach().cpu().numpy()\n",
        "out.detach().cpu().float().numpy()",
    ),
    "a view": ("", "a = out[0].data.cpu().numpy()\n", "out[0].data.cpu().float().numpy()"),
    "a softmax": (
        "",
        "a = F.softmax(out, dim=1).cpu().numpy()\n",
        "F.softmax(out, dim=1).cpu().float().numpy()",
    ),
    "by np.asarray": ("", "a = np.asarray(out.cpu())\n", "np.asarray(out.cpu().float())"),
    "a name for it": (
        "",
        "p = torch.sigmoid(out) * 2\na = p.cpu().numpy()\n",
        "p.cpu().float().numpy()",
    ),
    "inside the region": (
        "a = out.detach().cpu().numpy()\n",
        "",
        "out.detach().cpu().float().numpy()",
    ),
    "in a helper": ("", "a = score(out, y)\n", "score(out.float(), y)"),
}
OTHER = {
    "an index": "a = out.argmax(1).cpu().numpy()\n",
    "an index by max": "_, p = torch.max(out, 1)\na = p.cpu().numpy()\n",
    "labels": "a = y.cpu().numpy()\n",
    "labels by a helper": "a = score(y, y)\n",
    "a comparison": "a = (out > 0).cpu().numpy()\n",
}
FLOAT16 = {
    **{name: HALF[name][1:] for name in ("after the region", "a view", "by np.asarray")},
    "a softmax": (HALF["a softmax"][1], "F.softmax(out.float(), dim=1).cpu().numpy()"),
    "a name for it": (HALF["a name for it"][1], "p = torch.sigmoid(out.float()) * 2"),
}
NOTHING = {
    "in a helper": HALF["in a helper"][:2],
    "inside the region": ("a = out.detach().cpu().numpy().argmax(1)\n", ""),
    "the largest": ("", "a = out.detach().cpu().numpy().argmax(1)\n"),
    "the largest by numpy": ("", "a = np.argsort(out.detach().cpu().numpy(), 1)\n"),
}
BEFORE = (
    "import numpy as np\ndef score(p, t):\n    return (p.detach().cpu().numpy() == "
    "t.cpu().numpy()).mean()\n"
)


def program(inside: str, after: str) -> str:
    return f"out = model(x)\n{inside}loss = criterion(out, y)\n{STEP}{after}"


@pytest.mark.parametrize("dtype", ["bfloat16", "auto"])
@pytest.mark.parametrize(("inside", "after", "new"), HALF.values(), ids=HALF)
def test_half_values_are_float_first(inside: str, after: str, new: str, dtype: str) -> None:
    assert new in body(program(inside, after), before=BEFORE, dtype=dtype)


@pytest.mark.parametrize(("after", "new"), FLOAT16.values(), ids=FLOAT16)
def test_float16_is_float_where_it_leaves(after: str, new: str) -> None:
    """NumPy has a float16, and computes with it."""
    assert new in body(program("", after), before=BEFORE)


@pytest.mark.parametrize(("inside", "after"), NOTHING.values(), ids=NOTHING)
def test_float16_needs_nothing(inside: str, after: str) -> None:
    assert ".float()" not in body(program(inside, after), before=BEFORE)


@pytest.mark.parametrize("after", OTHER.values(), ids=OTHER)
def test_integers_stay_integers(after: str) -> None:
    assert ".float()" not in body(program("", after), before=BEFORE, dtype="bfloat16")
