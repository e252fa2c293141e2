"""Custom autograd functions keep float32 in a migrated file: decorated where they multiply, left
where they do not.
"""

from __future__ import annotations

import pytest

from tests.planner.programs import migrate, output, script, verdict

STEP = "loss.backward()\noptimizer.step()\n"
FUNCTION = '''\
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        """Both."""
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad


'''
LOOP = "loss = criterion(Product.apply(model(x), weight), y)\n" + STEP
FWD = (
    '    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)\n    def '
    "forward(ctx, x, w):\n"
)
BWD = (
    '    @torch.amp.custom_bwd(device_type="cuda")\n    def backward(ctx, grad):\n        '
    '"""Both."""\n'
)


def test_both_methods_are_decorated() -> None:
    new = output(script(LOOP, before=FUNCTION))
    assert "    @staticmethod\n" + FWD in new
    assert "    @staticmethod\n" + BWD in new


def test_what_is_written_into_an_argument_would_be_lost_in_a_copy() -> None:
    source = FUNCTION.replace(
        "        return x @ w", "        ctx.mark_dirty(x)\n        return x @ w"
    )
    assert verdict(script(LOOP, before=source)) == (
        "refused",
        "custom-function-without-custom_fwd-bwd",
    )


def test_comments_around_and_in_a_method_stay_as_they_are() -> None:
    source = FUNCTION.replace(
        "    @staticmethod\n    def backward",
        "    # both\n    @staticmethod  # of it\n    # now\n    def backward",
    )
    source = source.replace(
        '        """Both."""', '        # type: (Any, Tensor) -> Tensor\n        """Both."""'
    )
    new = output(script(LOOP, before=source))
    assert (
        "    # both\n    @staticmethod  # of it\n"
        '    @torch.amp.custom_bwd(device_type="cuda")\n    # now\n    def backward(ctx, grad):\n'
        '        # type: (Any, Tensor) -> Tensor\n        """Both."""\n'
    ) in new


def test_bfloat16_too() -> None:
    assert FWD in output(script(LOOP, before=FUNCTION), dtype="bfloat16")


def test_the_older_names() -> None:
    new = output(script(LOOP, before=FUNCTION), target_torch=(2, 0))
    assert "@torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)\n" in new
    assert "@torch.cuda.amp.custom_bwd\n" in new


def test_an_extension() -> None:
    source = "import roi_cuda\n" + FUNCTION.replace("x @ w", "roi_cuda.forward(x, w)").replace(
        "grad @ w.t(), x.t() @ grad", "grad, None"
    )
    assert FWD in output(script(LOOP, before=source))


LEFT = {
    "elementwise": FUNCTION.replace("x @ w", "x * w").replace(
        "grad @ w.t(), x.t() @ grad", "grad * w, grad * x"
    ),
    "never applied": FUNCTION.replace("Product", "Other"),
}


@pytest.mark.parametrize("source", LEFT.values(), ids=LEFT)
def test_left_alone(source: str) -> None:
    loop = LOOP if "Other" not in source else "loss = criterion(model(x), y)\n" + STEP
    assert "cast_inputs" not in output(script(loop, before=source))


def test_a_file_without_a_loop_is_none_of_its_business() -> None:
    assert (
        migrate("import torch\n" + FUNCTION + "Product.apply(a, b).sum().backward()\n").output
        is None
    )
