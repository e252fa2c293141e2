"""Runs the scripts of pytorch/examples under `amp-migrate verify --device cpu` and prints a table
of the verdicts.

    python -m tests.bench.verify_examples FOLDER [NAME...]

FOLDER is a checkout of pytorch/examples; it is copied, and nothing is written to it. torchvision
must be importable, for some scripts also gymnasium, scipy, matplotlib or six (`needs` says so).
Data that a script would download are made up (see `example_data`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import example_data as data

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Example:
    """One script. `options` are those of verify; `variables` are set in its environment, `{here}`
    is its folder.
    """

    script: str
    arguments: str = ""
    needs: str = "nothing"
    maker: Callable[[Path], None] | None = None
    options: str = "--steps 10"
    variables: tuple[tuple[str, str], ...] = ()


MNIST = "MNIST, made up"
RL = "--steps 10 --program-device cuda"
CORA = "Cora, made up, and a stand-in for `requests`"
EXAMPLES = {
    "mnist": Example("mnist/main.py", "--epochs 1 --batch-size 32", MNIST, data.mnist),
    "mnist_rnn": Example("mnist_rnn/main.py", "--epochs 1 --batch-size 32", MNIST, data.mnist),
    "mnist_forward_forward": Example(
        "mnist_forward_forward/main.py",
        "--epochs 5 --train_size 64 --test_size 64",
        MNIST,
        data.mnist_inside,
    ),
    "mnist_hogwild": Example("mnist_hogwild/main.py", "--epochs 1", MNIST, data.mnist),
    "vae": Example("vae/main.py", "--epochs 1 --batch-size 32", MNIST, data.mnist_and_results),
    "siamese_network": Example(
        "siamese_network/main.py", "--epochs 1", MNIST, data.mnist, "--steps 3"
    ),
    "imagenet": Example(
        "imagenet/main.py",
        "--dummy -a resnet18 -b 4 -j 0",
        "nothing: `--dummy`",
        options="--steps 3",
    ),
    "dcgan": Example(
        "dcgan/main.py",
        "--dataset fake --ngf 8 --ndf 8 --batchSize 8 --niter 1",
        "nothing: `--dataset fake`",
    ),
    "gcn": Example(
        "gcn/main.py",
        "--epochs 12",
        CORA,
        data.papers,
        variables=(("PYTHONPATH", "{here}/stand-in"),),
    ),
    "gat": Example(
        "gat/main.py",
        "--epochs 4 --hidden-dim 8 --num-heads 2",
        CORA,
        data.papers,
        "--steps 3",
        variables=(("PYTHONPATH", "{here}/stand-in"),),
    ),
    "super_resolution": Example(
        "super_resolution/main.py",
        "--upscale_factor 4 --batchSize 2 --testBatchSize 2 --nEpochs 3",
        "photographs, made up; six",
        data.photographs,
        "--steps 4",
    ),
    "fast_neural_style": Example(
        "fast_neural_style/neural_style/neural_style.py",
        (
            "train --dataset pictures --style-image 0.jpg --save-model-dir models --batch-size 2 "
            "--image-size 64 --epochs 1"
        ),
        "pictures and weights of VGG-16, made up",
        data.styles,
        "--steps 3",
        (("TORCH_HOME", "{here}"),),
    ),
    "word_language_model": Example(
        "word_language_model/main.py",
        "--epochs 1 --emsize 32 --nhid 32 --nlayers 1 --bptt 8",
        "Wikitext-2, made up",
        data.words,
    ),
    "word_language_model, Transformer": Example(
        "word_language_model/main.py",
        "--epochs 1 --emsize 32 --nhid 32 --nlayers 1 --bptt 8 --model Transformer",
        "Wikitext-2, made up",
        data.words,
    ),
    "regression": Example("regression/main.py"),
    "time_sequence_prediction": Example(
        "time_sequence_prediction/train.py", "--steps 2", "its own generator; matplotlib"
    ),
    "reinforce": Example("reinforcement_learning/reinforce.py", needs="gymnasium", options=RL),
    "actor_critic": Example(
        "reinforcement_learning/actor_critic.py", needs="gymnasium", options=RL
    ),
    "ddp-tutorial-series/single_gpu": Example(
        "distributed/ddp-tutorial-series/single_gpu.py", "1 5"
    ),
    "ddp-tutorial-series/multigpu": Example("distributed/ddp-tutorial-series/multigpu.py", "1 5"),
    "ddp-tutorial-series/multigpu_torchrun": Example(
        "distributed/ddp-tutorial-series/multigpu_torchrun.py",
        "1 5",
        options="--nproc 2 --steps 10",
    ),
    "ddp": Example(
        "distributed/ddp/example.py",
        needs="two GPUs: it ends at once",
        options="--nproc 2 --steps 10",
    ),
    "minGPT-ddp": Example("distributed/minGPT-ddp/mingpt/main.py", needs="two GPUs, hydra"),
    "tensor_parallelism": Example(
        "distributed/tensor_parallelism/tensor_parallel_example.py", needs="two GPUs"
    ),
    "FSDP2": Example("distributed/FSDP2/example.py", needs="two GPUs"),
    "rpc/rnn": Example("distributed/rpc/rnn/main.py"),
    "language_translation": Example(
        "language_translation/main.py", needs="torchtext (retired), spaCy, a download"
    ),
    "snli": Example("legacy/snli/train.py", needs="torchtext (retired), a download"),
}


@dataclass(frozen=True)
class Result:
    """`verdict`: pass, fail, or `not run`. `report` is verify's JSON, `output` the last lines
    where there is none.
    """

    verdict: str
    report: dict[str, Any]
    output: str


def run(example: Example, checkout: Path, folder: Path) -> Result:
    """Verify a copy of the example below `folder`."""
    script = Path(example.script)
    top = folder / script.parts[0] if len(script.parts) < 3 else folder / Path(*script.parts[:-1])
    source = checkout / top.relative_to(folder)
    shutil.copytree(source, top, ignore=shutil.ignore_patterns("*.jpg", "*.png"))
    here = top.parent if script.parts[0] == "fast_neural_style" else top
    if example.maker is not None:
        example.maker(here)
    report = folder / "report.json"
    command = [
        sys.executable,
        "-m",
        "amp_migrate",
        "verify",
        "--device",
        "cpu",
        "--json",
        str(report),
    ]
    command += [
        *example.options.split(),
        str((folder / script).relative_to(here)),
        *example.arguments.split(),
    ]
    done = subprocess.run(
        command,
        cwd=here,
        env=_environment(example, here),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    said = done.stdout + done.stderr
    if not report.is_file():
        return Result("not run", {}, said)
    found = json.loads(report.read_text(encoding="utf-8"))
    return Result(found["verdict"], found, said)


def _environment(example: Example, here: Path) -> dict[str, str]:
    found = {
        **os.environ,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "COLUMNS": "200",
    }
    found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    for name, value in example.variables:
        given = value.format(here=here)
        found[name] = os.pathsep.join([given, found[name]]) if name == "PYTHONPATH" else given
    return found


def row(name: str, example: Example, result: Result) -> str:
    """One line of the table."""
    return f"| {name} | {example.needs} | {told(result)} |"


def told(result: Result) -> str:
    """The verdict in a few words."""
    failed = [check for check in result.report.get("checks", ()) if check["verdict"] == "fail"]
    if result.verdict == "not run":
        return f"not run: {(result.output.strip().splitlines() or ['no output'])[-1]}"
    if failed and failed[0]["name"] == "migrated":
        return (
            "nothing to compare: "
            f"{failed[0]['message'].partition('(')[2].partition(')')[0] or 'no loop'}"
        )
    if failed:
        return f"fail: {failed[0]['name']}: {failed[0]['message']}"
    amp = result.report["runs"]["amp"]
    gradients = next((c for c in result.report["checks"] if c["name"] == "amp: gradients"), None)
    numbers = (
        f"; gradients {gradients['measured']:.2g} of {gradients['limit']:.2g}"
        if gradients and gradients["limit"]
        else ""
    )
    return f"pass: {amp['steps']} steps, {amp['skipped_steps']} skipped{numbers}"


def table(checkout: Path, names: list[str]) -> Iterator[str]:
    """The table in Markdown."""
    yield "| Script | What it needed | Verdict |"
    yield "|---|---|---|"
    for name in names:
        with tempfile.TemporaryDirectory(prefix="examples-") as folder:
            yield row(name, EXAMPLES[name], run(EXAMPLES[name], checkout, Path(folder)))


def main(arguments: list[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="Scripts of pytorch/examples under verify.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXAMPLES))
    options = parser.parse_args(arguments)
    for line in table(options.checkout.resolve(), options.names or list(EXAMPLES)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
