"""What a value is, as far as AMP cares, and which library names make one."""

from __future__ import annotations

import ast
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from amp_migrate.patterns import pattern
from amp_migrate.records import NamedTuple
from amp_migrate.torch_facts import amp_api, layers, optimizers
from amp_migrate.torch_facts.devices import HAS_ACCELERATOR, INDICES

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
    held: Value | None = None
    """Of a list of models, what each of them is, where they are all the same."""
    mixed: bool = False
    """Whether it may be an optimizer or an object of another class, which is not a library's, as
    well.
    """
    others: tuple[Value, ...] = ()
    """What else a model may be, of other classes."""

    def __bool__(self) -> bool:
        return self.kind is not Kind.UNKNOWN

    def abroad(self, home: Program) -> Value:
        """The same, seen from another file than `home`, where it was found."""
        foreign = self.foreign or (
            (home, self.cls) if self.cls is not None else None
        )
        others = tuple(one.abroad(home) for one in self.others)
        return self._replace(
            cls=None, foreign=foreign, held=None, others=others
        )


UNKNOWN = Value(Kind.UNKNOWN)
OTHER = Value(Kind.OTHER)

_MODEL_MAKERS = (
    "torchvision.models.",
    "timm.create_model",
    "timm.models.create_model",
    "segmentation_models_pytorch.",
)
SCALERS = frozenset(amp_api.names("GradScaler"))


@lru_cache(maxsize=8_192)
def library_kind(name: str) -> Kind:
    """The kind of what calling the canonical `name` returns."""
    optimizer = optimizers.optimizer(name)
    if optimizer is not None:
        # One with a closure is an optimizer all the same: the loop is refused for the closure.
        is_driven = optimizer.driven or optimizer.closure
        return Kind.OPTIMIZER if is_driven else Kind.FOREIGN_OPTIMIZER
    if name.startswith("torch."):
        return _torch_kind(name)
    if (
        name.startswith(_MODEL_MAKERS)
        or name.endswith(".from_pretrained")
        and "transformers" in name
    ):
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
    if name in layers.WRAPPERS or name == "torch.hub.load":
        return Kind.MODEL
    if name in SCALERS or name in amp_api.SHARDED_SCALERS:
        return Kind.SCALER
    if (
        name == "torch.device"
        or name == "torch.accelerator.current_accelerator"
    ):
        return Kind.DEVICE
    if name in HAS_ACCELERATOR:
        return Kind.CUDA_FLAG
    if name in (*INDICES, "torch.cuda.device_count"):
        return Kind.INDEX
    if name.startswith(optimizers.SCHEDULERS):
        return Kind.SCHEDULER
    layer = layers.layer(name)
    if layer is not None and layer.role != "parameters":
        return Kind.CRITERION if layer.role == "criterion" else Kind.MODEL
    # Modules of older and newer versions of torch.
    is_module = head.startswith("torch.nn") and not head.startswith(
        "torch.nn.utils"
    )
    if (
        is_module
        and last[:1].isupper()
        and last not in ("Parameter", "Module", "Buffer")
    ):
        return Kind.CRITERION if last.endswith("Loss") else Kind.MODEL
    return Kind.UNKNOWN


_OPTIMIZER_NAME = pattern(
    r"(?i)optim|^opt(_|\d|$)|(_|^)opt(_?[a-z0-9])?$|^(opt|optimizer)[A-Z_]"
    r"|solver$|opts?$|^opts?(_|$)"
)
_NOT_OPTIMIZER_NAME = pattern(
    r"(?i)sched|options?$|^opt$(?<!opt)|adjust|config|cfg|args"
)
_CRITERION_NAME = pattern(
    r"(?i)crit(?!ic)|loss|objective|(^|_)(bce|mse|nll|ce|l1)(_|$)|cross_?entropy|distance"
)
_SCHEDULER_NAME = pattern(
    r"(?i)sched|warm_?up|lr_?(policy|adjust|decay)|anneal"
)


def optimizer_name(name: str) -> bool:
    """Whether people call optimizers so (`optimizer_G`, `opt`, `d_optim`, `solver`)."""
    return bool(
        _OPTIMIZER_NAME.search(name)
    ) and not _NOT_OPTIMIZER_NAME.search(name)


def criterion_name(name: str) -> bool:
    """Whether people call loss functions so."""
    return bool(_CRITERION_NAME.search(name))


def scheduler_name(name: str) -> bool:
    """Whether people call learning-rate schedulers so."""
    return bool(_SCHEDULER_NAME.search(name))
