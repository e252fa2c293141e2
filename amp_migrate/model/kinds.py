"""What a value is, as far as AMP cares, and which library names make one."""

from __future__ import annotations

import ast
import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from amp_migrate.model.program import Program


class Kind(Enum):
    """Roles of objects in a training program."""

    MODEL = "model"
    CRITERION = "criterion"
    OPTIMIZER = "optimizer"
    OPTIMIZERS = "optimizers"
    """A list, tuple or dict of optimizers."""
    FOREIGN_OPTIMIZER = "foreign optimizer"
    """Of another library, with rules of its own."""
    WRAPPER = "optimizer wrapper"
    """A class with a `step` of its own around an optimizer."""
    SCHEDULER = "scheduler"
    SCALER = "scaler"
    DEVICE = "device"
    DEVICE_NAME = "device name"
    """A string such as `"cuda"`."""
    INDEX = "device index"
    """An integer rank or GPU id."""
    CUDA_FLAG = "cuda flag"
    """A truth value that says whether CUDA is used."""
    OBJECT = "object"
    """An instance of a class in sight that is none of the above."""
    OTHER = "other"
    """Known to be none of these (a number, a string, an array)."""
    UNKNOWN = "unknown"


class Value(NamedTuple):
    """A kind with its evidence."""

    kind: Kind
    origin: ast.expr | None = None
    """The expression that made it."""
    name: str | None = None
    """Canonical name of the constructor."""
    cls: ast.ClassDef | None = None
    """Its class, when that is in this module."""
    foreign: tuple[Program, ast.ClassDef] | None = None
    """Its class, when that is in another module of the project."""

    def __bool__(self) -> bool:
        return self.kind is not Kind.UNKNOWN


UNKNOWN = Value(Kind.UNKNOWN)
OTHER = Value(Kind.OTHER)

_NOT_OPTIMIZERS = {"swa_utils", "lr_scheduler", "Optimizer"}
# Subclasses of torch.optim.Optimizer that keep its protocol, in libraries people use beside torch.
_SUBCLASSES = {
    "transformers.AdamW",
    "transformers.Adafactor",
    "transformers.optimization.AdamW",
    "transformers.optimization.Adafactor",
    "timm.optim.create_optimizer",
    "timm.optim.create_optimizer_v2",
    "timm.optim.optim_factory.create_optimizer",
}
_FOREIGN = (
    "apex.",
    "deepspeed.",
    "bitsandbytes.",
    "horovod.",
    "fairscale.",
    "colossalai.",
    "torch_optimizer.",
    "jax.",
    "optax.",
)
_FOREIGN_MODULES = (
    "tensorflow.",
    "keras.",
    "mxnet.",
    "paddle.",
    "chainer.",
    "autograd.",
    "mindspore.",
    "oneflow.",
    "jittor.",
)
_OTHER_OPTIMIZERS = re.compile(
    r"^(Ada(Belief|Bound|Hessian|Mod|Factor)|[RY]ogi|RAdam|Ranger\w*|Lookahead|Lamb|LAMB|Lion|Novo[Gg]rad|Madgrad|MADGRAD|Prodigy|Sophia\w*)$"
)
_MODEL_MAKERS = (
    "torchvision.models.",
    "torch.hub.load",
    "timm.create_model",
    "timm.models.create_model",
    "segmentation_models_pytorch.",
)
_MODEL_WRAPPERS = {
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.compile",
    "torch.jit.script",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
}
SCALERS = {"torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.cpu.amp.GradScaler", "torch.GradScaler"}


def library_kind(name: str) -> Kind:
    """The kind of what calling the canonical `name` returns."""
    if name.startswith("torch."):
        return _torch_kind(name)
    if name in _SUBCLASSES:
        return Kind.OPTIMIZER
    last = name.rpartition(".")[2]
    if name.startswith((*_FOREIGN, *_FOREIGN_MODULES)):
        return Kind.FOREIGN_OPTIMIZER if re.search(r"(?i)adam|lamb|sgd|optim|novograd", last) else Kind.UNKNOWN
    if _OTHER_OPTIMIZERS.search(last) and not name.startswith("."):
        return Kind.FOREIGN_OPTIMIZER
    if name.startswith(_MODEL_MAKERS) or name.endswith(".from_pretrained") and "transformers" in name:
        return Kind.OTHER if "Tokenizer" in name else Kind.MODEL
    if name.startswith(
        (
            "torchvision.transforms",
            "torchvision.datasets",
            "torchvision.utils",
            "gym.",
            "gymnasium.",
            "numpy.",
            "random.",
            "math.",
            "os.",
            "time.",
            "json.",
            "argparse.",
            "collections.",
        )
    ):
        return Kind.OTHER
    return Kind.UNKNOWN


def _torch_kind(name: str) -> Kind:
    head, _, last = name.rpartition(".")
    if name in _MODEL_WRAPPERS:
        return Kind.MODEL
    if name in SCALERS or last == "ShardedGradScaler":
        return Kind.SCALER
    if name == "torch.device" or name == "torch.accelerator.current_accelerator":
        return Kind.DEVICE
    if name in ("torch.cuda.is_available", "torch.accelerator.is_available"):
        return Kind.CUDA_FLAG
    if name in ("torch.cuda.current_device", "torch.cuda.device_count", "torch.distributed.get_rank"):
        return Kind.INDEX
    if head.startswith("torch.optim.lr_scheduler"):
        return Kind.SCHEDULER
    if head == "torch.optim" and last[:1].isupper() and last not in _NOT_OPTIMIZERS:
        return Kind.OPTIMIZER
    if head == "torch.nn" and last.endswith("Loss"):
        return Kind.CRITERION
    if head.startswith("torch.nn") and last[:1].isupper() and last not in ("Parameter", "Module"):
        return Kind.MODEL
    return Kind.UNKNOWN


_OPTIMIZER_NAME = re.compile(
    r"(?i)optim|^opt(_|\d|$)|(_|^)opt(_?[a-z0-9])?$|^(opt|optimizer)[A-Z_]|solver$|opts?$|^opts?(_|$)"
)
_NOT_OPTIMIZER_NAME = re.compile(r"(?i)sched|options?$|^opt$(?<!opt)|adjust|config|cfg|args")
_CRITERION_NAME = re.compile(r"(?i)crit(?!ic)|loss|objective|(^|_)(bce|mse|nll|ce|l1)(_|$)|cross_?entropy|distance")
_SCHEDULER_NAME = re.compile(r"(?i)sched|warm_?up|lr_?(policy|adjust|decay)|anneal")


def optimizer_name(name: str) -> bool:
    """Whether people call optimizers so (`optimizer_G`, `opt`, `d_optim`, `solver`)."""
    return bool(_OPTIMIZER_NAME.search(name)) and not _NOT_OPTIMIZER_NAME.search(name)


def criterion_name(name: str) -> bool:
    """Whether people call loss functions so."""
    return bool(_CRITERION_NAME.search(name))


def scheduler_name(name: str) -> bool:
    """Whether people call learning-rate schedulers so."""
    return bool(_SCHEDULER_NAME.search(name))
