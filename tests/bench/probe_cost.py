"""What it costs to be watched: the time of a training step with and without verify's probe and monitor.

    python -m tests.bench.probe_cost

prints a Markdown table. `measured` compares steps that are watched with those between them that are not; `stated` is
what verify itself says. Goal: below 5% on steps of 10 ms and longer. On the CPU all steps run under the emulation of
CUDA's autocast, which is no part of the probe.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from amp_migrate.runtime import simulated_gpu
from amp_migrate.runtime.compare import median
from amp_migrate.runtime.instrument import Instrument
from amp_migrate.runtime.job import Job
from amp_migrate.runtime.monitor import Monitor
from amp_migrate.runtime.needs import default_device
from amp_migrate.runtime.probe import Probe

MODELS = {
    "MLP, 8 layers": "nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())])",
    "MLP, 40 small layers": "nn.Sequential(*[layer for _ in range(40) for layer in (nn.Linear(256, 256), nn.ReLU())])",
    "CNN": "nn.Sequential(nn.Unflatten(1, (1, 16, 16)), nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), "
    "nn.ReLU(), nn.Flatten(), nn.Linear(4608, 10))",
    "transformer": "nn.Sequential(nn.Unflatten(1, (8, 32)), nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64), "
    "3))",
    "wide MLP": "nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 1024))",
}
HEAD = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = {model}.to(device)
batch = torch.randn(96, 256, device=device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
"""
LOOPS = {
    "float32": """\
for step in range({steps}):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    stamp()
""",
    "float16": """\
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range({steps}):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    stamp()
""",
}
STEPS = 120


class Switched(Instrument):
    """Looks at every second step only."""

    watching = True

    def _emit(self, kind: str, **facts: Any) -> None:
        if self.watching or kind in ("optimizer", "make"):
            super()._emit(kind, **facts)


def watch(
    model: str, loop: str, device: str, folder: Path, steps: int
) -> tuple[float, float, float]:
    """Run in this process: seconds per step, what watching adds to it as a share, and the share that verify states."""
    if device == "cpu":
        simulated_gpu.install()
    probe = Probe(Job("cost", "cost.py", str(folder), device=device, steps=0, warmup=steps // 6))
    instrument = Switched([Monitor(lambda: probe.done), probe])
    instrument.install()
    probe.cost = lambda: instrument.seconds
    clock = (
        time.perf_counter if device == "cuda" else time.process_time
    )  # others may use the CPU, too
    times: dict[bool, list[float]] = {True: [], False: []}
    began = clock()

    def stamp() -> None:
        nonlocal began
        if device == "cuda":
            torch.cuda.synchronize()
        times[instrument.watching].append(clock() - began)
        instrument.watching = not instrument.watching
        began = clock()

    text = (HEAD + LOOPS[loop]).format(model=MODELS[model], steps=steps)
    exec(compile(text, "cost.py", "exec"), {"stamp": stamp})
    seen, alone = (
        sum(sorted(times[watched][steps // 6 :])[: steps // 4]) for watched in (True, False)
    )
    probe.finish("finished")
    each = probe.trace.probe_seconds / max(len(times[True]) - steps // 6 - 1, 1)
    seconds = median(times[False])
    return seconds, max(seen - alone, 0.0) / seen, each / (seconds + each)


def table(device: str, steps: int = STEPS) -> Iterator[str]:
    """The table in Markdown, one process for each row."""
    yield "| program | step, ms | cost, measured | cost, stated |"
    yield "|---|---|---|---|"
    for model in MODELS:
        for loop in LOOPS:
            order = json.dumps([model, loop, device, steps])
            command = [sys.executable, "-m", "tests.bench.probe_cost", "--once", order]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            seconds, measured, stated = json.loads(done.stdout)
            yield f"| {model}, {loop} | {1e3 * seconds:.1f} | {measured:.1%} | {stated:.1%} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What verify's probe costs.")
    parser.add_argument("--once", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        model, loop, device, steps = options.once
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(watch(model, loop, device, Path(folder), steps)))
        return
    for line in table(default_device()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
