"""Casts that keep a region safe in half precision, and the constructs that no cast mends."""

from __future__ import annotations

import pytest

from tests.planner.programs import body, output, script, text, verdict

STEP = "loss.backward()\noptimizer.step()\n"

CASTS = {
    "masked_fill": ("scores.masked_fill(mask, -1e9)", "scores.float().masked_fill(mask, -1e9)"),
    "a negative power": (
        "scores.masked_fill(mask, -(10 ** 9))",
        "scores.float().masked_fill(mask, -(10 ** 9))",
    ),
    "float('1e9')": (
        "scores.masked_fill(mask, float('1e9'))",
        "scores.float().masked_fill(mask, float('1e9'))",
    ),
    "a keyword": (
        "scores.masked_fill(mask, value=-1e9)",
        "scores.float().masked_fill(mask, value=-1e9)",
    ),
    "where": ("torch.where(mask, scores, -1e9)", "torch.where(mask, scores.float(), -1e9)"),
    "clamp": ("scores.clamp(-1e6, 1e6)", "scores.float().clamp(-1e6, 1e6)"),
    "inverse": ("torch.inverse(scores)", "torch.inverse(scores.float())"),
    "a method": ("scores.cholesky()", "scores.float().cholesky()"),
    "linalg": ("torch.linalg.svd(scores)", "torch.linalg.svd(scores.float())"),
    "fft": ("torch.fft.rfft(scores)", "torch.fft.rfft(scores.float())"),
    "quantile": ("torch.quantile(scores, 0.5)", "torch.quantile(scores.float(), 0.5)"),
}


@pytest.mark.parametrize(("before", "after"), CASTS.values(), ids=CASTS)
def test_what_half_cannot_hold_is_cast(before: str, after: str) -> None:
    new = body(f"scores = model(x)\nscores = {before}\nloss = criterion(scores, y)\n{STEP}")
    assert f"    scores = {after}\n" in new
    assert new.count(".float()") == 1


SAFE = {
    "a small constant": "scores.masked_fill(mask, -1e4)",
    "infinity": "scores.masked_fill(mask, float('-inf'))",
    "the limit": "scores.clamp(-65504.0, 65504.0)",
    "float already": "scores.float().masked_fill(mask, -1e9)",
    "a norm": "torch.linalg.norm(scores)",
    "softmax": "torch.softmax(scores, 1)",
    "exp": "torch.exp(scores)",
    "matmul": "torch.matmul(scores, scores)",
    "an epsilon": "scores.clamp(min=1e-6)",
}


@pytest.mark.parametrize("expression", SAFE.values(), ids=SAFE)
def test_what_half_can_hold_stays(expression: str) -> None:
    new = body(f"scores = model(x)\nscores = {expression}\nloss = criterion(scores, y)\n{STEP}")
    assert f"    scores = {expression}\n" in new
    assert new.count(".float()") == expression.count(".float()")


BUFFERS = {
    "a mask": (
        "buffer = torch.zeros(8, 8, device=device)\n",
        "buffer[mask] = model(x)",
        "buffer[mask] = model(x).float()",
    ),
    "an index": (
        "buffer = torch.zeros(8, 8).to(device)\n",
        "buffer[ids] = scores",
        "buffer[ids] = scores.float()",
    ),
    "scatter_add_": (
        "buffer = torch.zeros(8, 8, device=device)\n",
        "buffer.scatter_add_(0, ids, scores)",
        "buffer.scatter_add_(0, ids, scores.float())",
    ),
    "index_add_": (
        "buffer = torch.zeros(8, 8, device=device)\n",
        "buffer.index_add_(0, ids, scores)",
        "buffer.index_add_(0, ids, scores.float())",
    ),
}


@pytest.mark.parametrize(("made", "write", "mended"), BUFFERS.values(), ids=BUFFERS)
def test_writes_into_a_float_buffer_are_cast(made: str, write: str, mended: str) -> None:
    source = f"{made}scores = model(x)\n{write}\nloss = (scores + buffer).mean()\n{STEP}"
    assert f"    {mended}\n" in body(source)


FINE = {
    "a slice": "buffer[:, 0] = scores[:, 0]",
    "a number": "buffer[0] = scores[0]",
    "a constant": "buffer[mask] = 0.0",
}


@pytest.mark.parametrize("write", FINE.values(), ids=FINE)
def test_writes_that_convert_by_themselves_stay(write: str) -> None:
    made = "buffer = torch.zeros(8, 8, device=device)\n"
    new = body(f"{made}scores = model(x)\n{write}\nloss = (scores + buffer).mean()\n{STEP}")
    assert f"    {write}\n" in new
    assert ".float()" not in new


def test_what_the_region_calls_is_seen() -> None:
    head = text(
        """
        import torch
        from torch import nn


        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Linear(8, 8)

            def forward(self, q, k, mask):
                scores = torch.matmul(self.w(q), k)
                return scores.masked_fill(mask == 0, -1e9).softmax(-1)


        def train(loader):
            model = Attention().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for q, k, mask in loader:
                loss = model(q.cuda(), k.cuda(), mask.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """
    )
    assert "return scores.float().masked_fill(mask == 0, -1e9).softmax(-1)\n" in output(head)


IN_PLACE = {
    "filled": "scores.masked_fill_(mask == 0, -1e9)",
    "written by index": "scores[mask == 0] = -1e9",
}


@pytest.mark.parametrize("write", IN_PLACE.values(), ids=IN_PLACE)
def test_a_local_that_is_written_in_place_is_float_from_the_start(write: str) -> None:
    head = text(
        f"""
        import torch
        from torch import nn


        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Linear(8, 8)

            def forward(self, q, k, mask):
                scores = torch.matmul(self.w(q), k) / 8
                {write}
                return scores.softmax(-1)


        def train(loader):
            model = Attention().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for q, k, mask in loader:
                loss = model(q.cuda(), k.cuda(), mask.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """
    )
    new = output(head)
    assert f"        scores = (torch.matmul(self.w(q), k) / 8).float()\n        {write}\n" in new


def test_what_the_region_does_not_call_stays() -> None:
    unused = "def show(scores, mask):\n    return scores.masked_fill(mask, -1e9)\n\n\n"
    new = body(f"loss = criterion(model(x), y)\n{STEP}", before=unused)
    assert ".float()" not in new


@pytest.mark.parametrize("write", ["scores.masked_fill_(mask, -1e9)", "scores[mask] = -1e9"])
def test_what_is_written_in_place_is_cast_where_it_is_made(write: str) -> None:
    new = body(f"scores = model(x)\n{write}\nloss = criterion(scores, y)\n{STEP}")
    assert "    scores = model(x).float()\n" in new
    assert new.count(".float()") == 1


def test_a_part_is_cast_where_the_whole_is_made() -> None:
    write = "scores[:, 0][mask] = 1e6"
    new = body(f"scores = model(x)\n{write}\nloss = criterion(scores, y)\n{STEP}")
    assert "    scores = model(x).float()\n" in new


@pytest.mark.parametrize("test", ["isfinite", "isnan"])
def test_what_is_asked_for_infinities_is_a_tensor(test: str) -> None:
    helper = (
        "import lib\n\n\ndef error(out, y):\n    kept = y.clone()\n    mask = torch.isfinite(y[:, 0])\n"
        "    kept[:, 0][~mask] = 1e6\n    return (kept - out).abs().mean()\n\n\n"
    ).replace("isfinite", test)
    step = "loss = error(model(x), lib.blend(model(x)))\n" + STEP
    assert "kept = y.clone().float()" in output(script(step, before=helper))


@pytest.mark.parametrize("write", ["out[0].masked_fill_(mask, -1e9)", "out[0][mask] = -1e9"])
def test_what_is_written_in_place_and_made_elsewhere_is_refused(write: str) -> None:
    source = f"out = [model(x)]\n{write}\nloss = criterion(out[0], y)\n{STEP}"
    assert verdict(source) == ("refused", "big-constant-in-half")


def test_before_the_region_nothing_is_half() -> None:
    new = body(f"x = x.masked_fill(x == 0, -1e4)\nloss = criterion(model(x), y)\n{STEP}")
    assert ".float()" not in new


LEAVING = {
    "an index write": (
        "seen = torch.zeros(8, 8, device=device)\n",
        "seen[y] = output",
        "seen[y] = output.float()",
    ),
    "a weight outside": (
        "table = torch.randn(8, 8, device=device)\n",
        "print(output @ table)",
        "output.float() @ table",
    ),
}


@pytest.mark.parametrize(("made", "use", "mended"), LEAVING.values(), ids=LEAVING)
def test_outputs_that_meet_float_after_the_region_are_cast(
    made: str, use: str, mended: str
) -> None:
    new = body(f"output = model(x)\nloss = criterion(output, y)\n{STEP}{use}\n", before=made)
    assert mended in new


PLAIN_USES = [
    "print(output.argmax(1))",
    "total += output.mean().item()",
    "kept = torch.cat([output, x])",
    "kept = output + 1",
]


@pytest.mark.parametrize("use", PLAIN_USES)
def test_other_uses_after_the_region_stay(use: str) -> None:
    new = body(f"output = model(x)\nloss = criterion(output, y)\n{STEP}{use}\n")
    assert new.endswith(f"\n{use}\n")


def test_numpy_of_bfloat16_is_cast() -> None:
    source = (
        f"output = model(x)\nloss = criterion(output, y)\n{STEP}kept = "
        "output.detach().cpu().numpy().argmax()\n"
    )
    assert body(source).endswith("kept = output.detach().cpu().numpy().argmax()\n")
    assert ".float()" in body(source, dtype="bfloat16").rpartition("kept = ")[2]
