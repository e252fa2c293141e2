"""A correct migration, and ways to break it: each edit replaces one piece of the correct program by
another. And a program for several processes.
"""

from __future__ import annotations

BEFORE = """\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
data = torch.randn(64, 8)
target = data @ torch.randn(8, 1)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).to(device)


def train():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for epoch in range(6):
        for x, y in zip(data.split(16), target.split(16)):
            optimizer.zero_grad()
            output = model(x.to(device))
            loss = torch.nn.functional.mse_loss(output, y.to(device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        scheduler.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, "checkpoint.pt")


train()
"""

AFTER = """\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
data = torch.randn(64, 8)
target = data @ torch.randn(8, 1)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).to(device)


def train():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for epoch in range(6):
        for x, y in zip(data.split(16), target.split(16)):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
                output = model(x.to(device))
                loss = torch.nn.functional.mse_loss(output, y.to(device))
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        scheduler.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
        torch.save(state, "checkpoint.pt")


train()
"""

DDP = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    data, target = torch.randn(64, 8), torch.randn(64, 1)
    for x, y in zip(data.split(16), target.split(16)):
        optimizer.zero_grad()
        output = model(x.to(device))
        loss = torch.nn.functional.mse_loss(output, y.to(device))
        loss.backward()
        optimizer.step()
    print("rank", rank, "scaler" in main.__code__.co_varnames, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""


def edited(text: str, *edits: tuple[str, str]) -> str:
    """`text` with each piece replaced; every piece must be there, once or more."""
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text
