"""Devices and threads: where the model runs, and what only a GPU does."""

from __future__ import annotations

from tests.runtime.verdicts.cases import Case, Program, right, wrong

BASE = Program()
REGION = 'with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):'
LOSS = "        loss = F.mse_loss(model(x), y)\n"
THREAD = """\
import threading


def in_thread(model, x):
    found = []
    def run():
        with torch.enable_grad():
            found.append(model(x))
    worker = threading.Thread(target=run)
    worker.start()
    worker.join()
    return found[0]

"""
OWN = "{0} = nn.Parameter(torch.randn(8))"
SPAWNED = """\
import torch
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F


def train(rank):
    model = nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(4):
        optimizer.zero_grad()
        loss = F.mse_loss(model(torch.randn(4, 8).cuda()), torch.randn(4, 1).cuda())
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
"""

CASES = [
    right("use_cuda as a flag", BASE.but(
        head="use_cuda = torch.cuda.is_available()\nif use_cuda:\n    torch.backends.cudnn.benchmark = True",
        before="if use_cuda:\n    x = x.cuda()",
    )),
    right("is_cuda and device.type are asked", BASE.but(
        forward="assert x.is_cuda and x.device.type == 'cuda'\nloss = F.mse_loss(model(x), y)"
    )),
    right("torch.cuda is asked", BASE.but(
        head="torch.cuda.set_device(0)\nprint(torch.cuda.get_device_name(0), torch.cuda.device_count())",
        after="torch.cuda.synchronize()\nassert torch.cuda.memory_allocated() >= 0",
    )),
    right("tensors that stay on the CPU", BASE.but(
        head="mixing = torch.eye(8)", before="x = x @ mixing.float()",
        forward="weight = (torch.ones(2, 2) @ torch.ones(2, 2)).sum().item()\n"
        "loss = F.mse_loss(model(x), y) * weight / 8",
    )),
    right("autocast of the CPU for what runs there", BASE.but(
        head="small = nn.Linear(8, 8)",
        before="with torch.no_grad(), torch.autocast('cpu', dtype=torch.bfloat16):\n"
        "    h = small(x)\nassert h.dtype is torch.bfloat16 and h.softmax(-1).dtype is torch.bfloat16\n"
        "x = h.float()",
    )),
    right("DataParallel on one GPU", BASE.but(model="nn.DataParallel(nn.Linear(8, 1))")),
    right("a stream and an event", BASE.but(
        head="stream = torch.cuda.Stream()", before="with torch.cuda.stream(stream):\n    x = x + 0",
        after="event = torch.cuda.Event(enable_timing=True)\nevent.record()\nevent.synchronize()",
    )),
    right("saved and loaded", BASE.but(
        after="import io\nfile = io.BytesIO()\ntorch.save(model.state_dict(), file)\nfile.seek(0)\n"
        "state = torch.load(file, map_location=device)\n"
        "assert all(value.is_cuda for value in state.values())\nmodel.load_state_dict(state)",
    )),
    right("a worker loads the data", BASE.but(
        head="class Rows(torch.utils.data.Dataset):\n    def __len__(self):\n        return 256\n"
        "    def __getitem__(self, place):\n        return torch.full((8,), place / 256)\n"
        "rows = iter(torch.utils.data.DataLoader(Rows(), 16, num_workers=1, pin_memory=True))",
        data="x = next(rows)\ny = x.sum(1, keepdim=True)",
    )),
    right("deepcopy of the model", BASE.but(
        head="import copy",
        after="if step == 3:\n    average = copy.deepcopy(model)\nif step > 3:\n    with torch.no_grad():\n"
        "        for a, p in zip(average.parameters(), model.parameters()):\n            a.lerp_(p, 0.1)",
    )),
    wrong("the model runs in a thread", BASE.but(head=THREAD, forward="loss = F.mse_loss(in_thread(model, x), y)"),
          fails="engaged"),
    wrong("autocast of the CPU around a GPU's model", BASE, ('torch.autocast("cuda", dtype=torch.float16',
          'torch.autocast("cpu", dtype=torch.bfloat16'), fails=("engaged", "protocol")),
    wrong("the device type of a CPU tensor", BASE.but(head="probe = torch.ones(1)"),
          ('torch.autocast("cuda", dtype=torch.float16', "torch.autocast(probe.device.type, dtype=torch.bfloat16"),
          fails="engaged"),
    wrong("a switch that is never on", BASE.but(head="has_amp = hasattr(torch, 'amp_gpu')"),
          ("enabled=use_amp", "enabled=has_amp"), fails="engaged"),
    wrong("only the scaler is on", BASE, (REGION, REGION.replace("use_amp", "False")), fails="engaged"),
    wrong("the region is around nothing", BASE, (LOSS, "        pass\n" + LOSS[4:]), fails="engaged"),
    wrong("an island around the model", BASE, (LOSS,
          '        with torch.autocast("cuda", enabled=False):\n    ' + LOSS), fails="engaged"),
    wrong("a CPU tensor in the GPU's branch", BASE, (LOSS,
          "        mask = torch.ones(16, 1)\n        loss = F.mse_loss(model(x) * mask, y)\n"),
          fails="run", words="same device"),
    wrong("numpy of a GPU's tensor", BASE, (LOSS, LOSS + "        print(model(x).detach().numpy().sum())\n"),
          fails="run", words="numpy"),
    wrong("a fault in the GPU's branch", BASE, (LOSS, LOSS + "    if loss.is_cuda:\n        losses.append(loss)\n"),
          fails="run", words="losses"),
    wrong("bfloat16 handed to numpy", BASE.but(dtype="bfloat16"),
          ("    loss.backward()\n", ("    print(model(x.bfloat16() if 0 else x).detach().bfloat16().cpu().numpy().sum())\n"
           "    loss.backward()\n")), fails="run"),
    wrong("half weights under a scaler", BASE, (".to(device)\noptimizer", ".to(device).half()\noptimizer"),
          fails=("run", "amp-off")),
    Case("training in processes of its own", SPAWNED, SPAWNED.replace("0.05", "0.050"), ("run",),
         words="processes itself"),
]  # fmt: skip
