"""Run by test_emulation in its own process: what expressions give under CUDA's autocast, emulated
(cpu) or real.
"""

import copy
import io
import json
import os
import sys
import warnings

import torch

from amp_migrate.runtime import simulated_gpu

warnings.simplefilter("ignore")
place = sys.argv[1]
if place == "cpu":
    simulated_gpu.install()
torch.set_default_device("cuda")
F, nn = torch.nn.functional, torch.nn
full = torch.randn(3, 4, requires_grad=True)
target = torch.tensor([1, 2, 3])
image = torch.randn(2, 3, 8, 8)
linear = nn.Linear(4, 4).cuda()
EXPRESSIONS = [
    "linear(full)", "half @ full.T", ("torch.einsum('ij,kj->ik', full, "
"full)"), "nn.Conv2d(3, 4, 3)(image)",
    "nn.LSTM(4, 5)(full[None])[0]", "nn.GRUCell(4, 5)(full)", ("nn.MultiheadAttention(4, 2)(half, "
"half, half)[0]"),
    "half.softmax(-1)", "half.softmax(-1, dtype=torch.half)", "half.exp()", "half.sum()", "half.mean()",
    "half.norm()",
    "half ** 2", "half * half", "half.sigmoid()", ("F.layer_norm(half, "
"(4,))"), "F.cross_entropy(half, target)",
    "F.mse_loss(half, full)", ("F.binary_cross_entropy_with_logits(half, "
"full)"), "torch.cat([half, full])",
    "F.interpolate(image.half(), scale_factor=2.0)", "nn.BatchNorm2d(3)(image.half())", "torch.tensordot(half, full, 2)",
    "half.double() @ full.double().T", "half + full", "F.dropout(half)", "half.cumsum(0)",
]  # fmt: skip
found = {}
with torch.autocast("cuda", dtype=torch.float16):
    half = linear(full)
    for expression in EXPRESSIONS:
        found[expression] = str(eval(expression).dtype).removeprefix("torch.")
    try:
        nn.BCELoss()(half.sigmoid(), torch.ones(3, 4))
    except RuntimeError as error:
        found["BCELoss"] = str(error)
    with torch.autocast("cuda", enabled=False):
        found["island"] = str(linear(full).dtype).removeprefix("torch.")
    found["overflow"] = str((torch.full((1, 4), 300.0) @ torch.full((4, 1), 300.0)).item())
found["outside"] = str(linear(full).dtype).removeprefix("torch.")
scaler = torch.amp.GradScaler("cuda")
scaler.scale(linear(full).sum()).backward()
found["scaler"] = [
    scaler.is_enabled(),
    str(full.grad.dtype).removeprefix("torch."),
    full.device.type,
]
with torch.autocast("cuda", dtype=torch.float16):
    first = linear(full)
    with torch.no_grad():
        linear.weight.add_(1)
    found["stale weight"] = bool(torch.equal(first, linear(full)))
x, ones = full.detach(), torch.ones(3, 4)


def saved(value: torch.Tensor, location: object = None) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, map_location=location)


def drawn(function: object, dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(3)
    return function(x.to(dtype)).float()


def same_dropout() -> bool:
    one, other = (drawn(F.dropout, dtype) == 0 for dtype in (torch.float32, torch.float16))
    return torch.equal(one, other)


def same_noise() -> bool:
    one, other = (drawn(torch.randn_like, dtype) for dtype in (torch.float32, torch.float16))
    return torch.equal(one.half().float(), other)


def same_address(module: nn.Module) -> bool:
    before = module.cpu().weight
    return module.cuda().weight is before


def cpu_region() -> bool:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        there, here = linear(x).dtype, (x.cpu() @ x.cpu().T).softmax(-1).dtype
    return (there, here) == (torch.float32, torch.bfloat16)


def trains(layer: nn.Module) -> bool:
    output = layer(x[None])
    (output[0] if isinstance(output, tuple) else output).square().sum().backward()
    return all(one.grad.is_cuda for one in layer.parameters())


def twice(layer: nn.Module) -> bool:
    """A gradient of a gradient is that of a CPU, and so is a gradient that is asked for twice."""
    gradients = []
    for place in (torch.device("cuda"), torch.device("cpu")):
        there, value = copy.deepcopy(layer).to(place), x.detach().to(place).requires_grad_()
        outputs = there(value)
        output = outputs[0] if isinstance(outputs, tuple) else outputs
        torch.autograd.grad(output.sum(), value, retain_graph=True)
        (slope,) = torch.autograd.grad(output.square().sum(), value, create_graph=True)
        slope.square().sum().backward()
        gradients.append([one.grad.cpu() for one in there.parameters()])
    return all(torch.allclose(one, other, atol=1e-6) for one, other in zip(*gradients, strict=True))


def view() -> torch.Tensor:
    whole = torch.zeros(3, 4)
    for row in whole.view(12).split(4):
        row.t_().add_(1) if row.dim() > 1 else row.add_(1)
    return whole


def refused(expression: str) -> str:
    try:
        eval(expression)
    except (RuntimeError, TypeError) as error:
        return str(error)
    return "it ran"


if place == "cpu":
    from tests.runtime.gpu_facts import REFUSED, TRUE

    found["facts"] = {text: eval(text) for text in TRUE}
    found["refused"] = {text: refused(text) for text in REFUSED}
print(json.dumps(found))
sys.stdout.flush()
os._exit(0)  # a GPU's threads are not waited for
