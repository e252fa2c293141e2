"""One migrated program run for a few steps on made-up data, in a process of its own
(`apex_programs` starts it).

`python -m tests.bench.apex_runs KIND FILE FOLDER STEPS`: FOLDER is where the program's own modules
are.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import logging
import os
import runpy
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader, TensorDataset


class Enough(BaseException):
    """The steps asked for are made."""


class Counter:
    """Counts optimizer steps, and looks at the losses that backward starts from."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.steps = 0
        self.loss = float("nan")
        backward = torch.Tensor.backward

        def seen(tensor: torch.Tensor, *given: Any, **named: Any) -> None:
            self.loss = float(tensor.detach())
            backward(tensor, *given, **named)

        torch.Tensor.backward = seen  # type: ignore[method-assign, assignment]
        register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, *given: object) -> None:
        self.steps += 1
        if self.steps >= self.wanted:
            raise Enough


class _Meta(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class _Anything(metaclass=_Meta):
    """Stands for whatever a package that is not installed would give."""

    def __init__(self, *given: object, **named: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __call__(self, *given: object, **named: object) -> Any:
        return _Anything()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, key: object) -> Any:
        return _Anything()

    def __len__(self) -> int:
        return 0


class AdamW(torch.optim.AdamW):
    """That of transformers takes the same arguments."""

    def __init__(self, params: Any, lr: float = 1e-3, eps: float = 1e-6, **options: Any) -> None:
        super().__init__(params, lr=lr, eps=eps, weight_decay=0.0)


def _warmed_up(
    optimizer: torch.optim.Optimizer, **options: Any
) -> torch.optim.lr_scheduler.LambdaLR:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)


class Quiet:
    """tqdm without a bar."""

    def __init__(self, items: Any, *given: object, **named: object) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def set_description(self, *given: object, **named: object) -> None:
        """Say nothing."""


def _quiet_range(*numbers: int, **named: object) -> Quiet:
    return Quiet(range(*numbers))


_KNOWN: dict[str, object] = {
    "AdamW": AdamW,
    "get_linear_schedule_with_warmup": _warmed_up,
    "tqdm": Quiet,
    "trange": _quiet_range,
}


class _StandIn(types.ModuleType):
    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _KNOWN.get(name) or type(name, (_Anything,), {})


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules that a program wants and nobody has; all but apex, which must not be asked for
    any more.
    """

    def __init__(self, *homes: str) -> None:
        self.homes = homes

    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for what is missing."""
        if fullname.partition(".")[0] == "apex" or not self._wanted_by_the_program():
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def _wanted_by_the_program(self) -> bool:
        """Whether the import statement is the program's: torch asks for optional packages too, and
        must not get them.
        """
        frame = sys._getframe(2)
        while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        return frame.f_code.co_filename.startswith(self.homes)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """An empty module that has every name."""
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


class Nothing(int):
    """A setting that was not given: 0, and so are the settings in it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()


class Loose:
    """Settings: those given, and 0 for any other."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()


class Words(nn.Module):
    """Takes the inputs of a transformer and gives what one gives: the loss and the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.config = Loose()
        self.embedding = nn.Embedding(32, 16)
        self.layer = nn.Linear(16, 16)
        self.LayerNorm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 4)

    def forward(self, input_ids: torch.Tensor, **rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss on labels made of the ids."""
        hidden = self.LayerNorm(self.layer(self.embedding(input_ids).mean(1)).relu())
        logits = self.head(hidden)
        return nn.functional.cross_entropy(logits, input_ids[:, 0] % 4), logits


def transformers(program: Any, folder: str, steps: int) -> None:
    """`train(args, train_dataset, model, tokenizer, ...)` of the early transformers examples."""
    columns = [torch.randint(32, (8 * (steps + 1), 6)) for _ in range(14)]
    args = Loose(
        fp16=True,
        fp16_opt_level="O1",
        local_rank=-1,
        device=torch.device("cpu"),
        per_gpu_train_batch_size=8,
        gradient_accumulation_steps=1,
        num_train_epochs=1,
        max_steps=-1,
        learning_rate=1e-3,
        adam_epsilon=1e-6,
        max_grad_norm=1.0,
        model_type="bert",
        model_name_or_path=os.path.join(folder, "none"),
        output_dir=folder,
        metric_for_choose_best_checkpoint=None,
        seed=0,
        logging_each_epoch=False,
    )
    given = {
        "args": args,
        "train_dataset": TensorDataset(*columns),
        "model": Words(),
        "sub_output_dir": folder,
        "labels": ["a", "b"],
        "pad_token_label_id": -100,
        "train_examples": list(range(len(columns[0]))),
        "first_stage_model": None,
        "noised_data_generator": None,
    }
    names = inspect.signature(program.train).parameters
    program.train(**{name: given.get(name, _Anything()) for name in names})


class Speech(nn.Module):
    """Takes a batch as Tacotron 2 does."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 10))

    def parse_batch(
        self, batch: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The inputs and the targets."""
        return batch[0], batch[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Frames."""
        out: torch.Tensor = self.body(x)
        return out


def tacotron(program: Any, folder: str, steps: int) -> None:
    """`train(output_directory, log_directory, checkpoint_path, ..., hparams)`."""
    data = TensorDataset(torch.randn(4 * (steps + 1), 10), torch.randn(4 * (steps + 1), 10))
    loaders = (DataLoader(data, batch_size=4), data, None, None)
    wanted = len(
        inspect.getsource(program.train)
        .partition(" = prepare_dataloaders")[0]
        .rpartition("\n")[2]
        .split(",")
    )
    program.load_model = lambda hparams: Speech()
    program.Tacotron2Loss = nn.MSELoss
    program.prepare_dataloaders = lambda hparams: loaders[:wanted]
    program.prepare_directories_and_logger = lambda *given: _Anything()
    program.validate = lambda *given: None
    hparams = Loose(
        fp16_run=True,
        learning_rate=1e-3,
        learning_rate_min=1e-5,
        learning_rate_anneal=1000,
        grad_clip_thresh=1.0,
        epochs=1,
        iters_per_checkpoint=1,
    )
    given = {
        "output_directory": folder,
        "log_directory": folder,
        "n_gpus": 1,
        "rank": 0,
        "hparams": hparams,
    }
    program.train(**{name: given.get(name) for name in inspect.signature(program.train).parameters})


def classification(program: Any, folder: str, steps: int) -> None:
    """`train(epoch, config, model, optimizer, ...)`, with the scaler that `main` now makes for it."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 5))
    data = TensorDataset(
        torch.randn(8 * (steps + 1), 3, 4, 4), torch.randint(5, (8 * (steps + 1),))
    )
    config = Loose(
        device="cpu",
        augmentation=Loose(),
        tensorboard=Loose(),
        scheduler=Loose(epochs=1),
        train=Loose(
            seed=0,
            use_apex=True,
            precision="O1",
            subdivision=1,
            gradient_clip=1.0,
            log_period=100,
            output_dir=os.path.join(folder, "out"),
            dataloader=Loose(non_blocking=False),
            dist=Loose(),
            start_epoch=0,
            checkpoint="",
        ),
    )
    program.load_config = lambda: config
    program.create_model = lambda config: model
    program.create_optimizer = lambda config, model: torch.optim.SGD(model.parameters(), lr=0.1)
    program.create_loss = lambda config: (nn.CrossEntropyLoss(), nn.CrossEntropyLoss())
    program.create_dataloader = lambda config, is_train: (DataLoader(data, batch_size=8), None)
    program.apply_data_parallel_wrapper = lambda config, model: model
    program.count_op = lambda config, model: (0, 0)
    program.find_config_diff = lambda config: None
    program.setup_cudnn = lambda config: None
    program.create_scheduler = lambda config, optimizer, **named: _warmed_up(optimizer)
    program.get_rank = lambda: 1
    program.compute_accuracy = lambda *given, **named: (torch.zeros(1), torch.zeros(1))
    program.main()


class Detector(nn.Module):
    """Gives a dict of losses, as the detectors of maskrcnn-benchmark do."""

    def __init__(self) -> None:
        super().__init__()
        self.rpn = self.backbone = nn.Linear(6, 8)
        self.roi_heads = nn.ModuleDict({"relation": nn.Linear(8, 2)})
        self.roi_heads.box = nn.Identity()

    def forward(
        self, images: torch.Tensor, targets: Sequence[torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Two losses."""
        hidden = self.backbone(images).relu()
        out = self.roi_heads["relation"](hidden)
        return {
            "classifier": out.pow(2).mean(),
            "boxes": (out - torch.stack(list(targets))).abs().mean(),
        }


def detection(program: Any, folder: str, steps: int) -> None:
    """`train(cfg, local_rank, distributed, logger)` of the descendants of maskrcnn-benchmark."""
    batches = [
        (torch.randn(3, 6), [torch.randn(2) for _ in range(3)], None) for _ in range(steps + 1)
    ]
    solver = Loose(
        IMS_PER_BATCH=3,
        CHECKPOINT_PERIOD=1000,
        PRINT_GRAD_FREQ=1000,
        VAL_PERIOD=1000,
        GRAD_NORM_CLIP=5.0,
    )
    cfg = Loose(
        DTYPE="float16",
        OUTPUT_DIR=folder,
        SOLVER=solver,
        MODEL=Loose(DEVICE="cpu", ROI_RELATION_HEAD=Loose()),
    )
    program.build_detection_model = lambda cfg: Detector()
    program.make_optimizer = lambda cfg, model, *given, **named: torch.optim.SGD(
        model.parameters(), lr=0.1
    )
    program.make_data_loader = lambda *given, **named: batches
    program.reduce_loss_dict = lambda losses: losses
    program.MetricLogger = lambda **named: Loose(
        update=lambda **losses: None, time=Loose(global_avg=0.0)
    )
    program.clip_grad_norm = lambda named, max_norm, **options: nn.utils.clip_grad_norm_(
        [p for _, p in named], max_norm
    )
    program.train(cfg, 0, False, _Anything())


_LOADED: dict[str, Callable[[Any, str, int], None]] = {
    "transformers": transformers,
    "tacotron": tacotron,
    "classification": classification,
    "detection": detection,
}


def run(kind: str, file: str, home: str, steps: int, folder: str) -> None:
    """Run the program at `file`; files that it writes go to `folder`."""
    sys.path.insert(0, home)
    sys.modules.setdefault("torch.utils.tensorboard", _StandIn("torch.utils.tensorboard"))
    sys.meta_path.append(StandIns(home, file))
    if kind == "dcgan":
        source = (
            Path(file)
            .read_text(encoding="utf-8")
            .replace('torch.device("cuda:0")', 'torch.device("cpu")')
        )
        # Since torch 1.7 the labels that it fills by an int are no floats.
        Path(file).write_text(
            source.replace("real_label = 1\n", "real_label = 1.0\n"), encoding="utf-8"
        )
        sys.argv = [
            file,
            "--dataset",
            "fake",
            "--batchSize",
            "4",
            "--workers",
            "0",
            "--niter",
            "1",
            "--outf",
            folder,
        ]
        runpy.run_path(file, run_name="__main__")
        return
    spec = importlib.util.spec_from_file_location("migrated_program", file)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    _LOADED[kind](program, folder, steps)


def main() -> None:
    """Run, then print the number of steps and the last loss as JSON."""
    kind, file, home, steps = sys.argv[1:]
    warnings.simplefilter("ignore")
    logging.disable()
    torch.manual_seed(0)
    counter = Counter(int(steps))
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Enough):
        run(kind, file, home, int(steps), folder)
    print(json.dumps({"steps": counter.steps, "loss": counter.loss}))


if __name__ == "__main__":
    main()
