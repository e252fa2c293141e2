"""Optimizers of torch and of other libraries: whether GradScaler can drive them, and why not.

GradScaler drives what has `param_groups`, keeps its gradients in `.grad`, and steps without a
closure. A row names one class or factory, or a whole package (`apex.optimizers.*`); the most
specific row decides.
"""

from __future__ import annotations

from functools import cache

from amp_migrate.records import NamedTuple


class Optimizer(NamedTuple):
    """One class, factory or package."""

    name: str
    """Canonical; `package.*` is everything below a package that is called like an optimizer."""
    driven: bool = True
    reason: str = ""
    """Why GradScaler cannot drive it."""
    closure: bool = False
    """Its step evaluates the loss itself."""
    attaches: bool = False
    """What it makes may take the place of the step of an optimizer that it is handed."""
    marked: bool = False
    """It says of itself that it is of second order (`SECOND_ORDER_MARK`)."""


_CLOSURE = "its step evaluates the loss itself, several times"
_SECOND = "it differentiates the gradients again, which needs them unscaled"
_SHARDS = "it shards its state: it needs a scaler of its own"
_SCALES = "it scales the loss itself"
_TWICE = "it steps twice for each batch, with a backward in between"
_OTHER = "it belongs to another framework, not to torch"
_BACKWARD = (
    "it steps inside backward, before a scaler could unscale the gradients"
)

METHODS = frozenset(
    """
    add_param_group load_state_dict profile_hook_step state_dict step zero_grad
    register_load_state_dict_post_hook register_load_state_dict_pre_hook
    register_state_dict_post_hook register_state_dict_pre_hook
    register_step_post_hook register_step_pre_hook
    """.split()
)
"""What every optimizer of torch has."""

_DRIVEN = (
    "torch.optim.*",
    "torch.distributed.optim.ZeroRedundancyOptimizer",
    "torch.optim._multi_tensor.*",
    "torch_optimizer.*",
    "pytorch_optimizer.*",
    "apex.optimizers.*",
    "apex.parallel.LARC",
    "timm.optim.*",
    "transformers.AdamW",
    "transformers.Adafactor",
    "transformers.optimization.AdamW",
    "transformers.optimization.Adafactor",
    "bitsandbytes.optim.*",
    "lion_pytorch.*",
    "madgrad.*",
    "adabelief_pytorch.*",
    "adabound.*",
    "prodigyopt.*",
    "dadaptation.*",
    "schedulefree.*",
    "ranger.*",
    "ranger21.*",
    "ranger_adabelief.*",
    "lamb.*",
    "pytorch_lamb.*",
    "came_pytorch.*",
    "sophia.*",
    "radam.*",
    "adamp.*",
    "torchlars.*",
    "fairseq.optim.adam.FairseqAdam",
    "pytorch_pretrained_bert.optimization.*",
    "pytorch_transformers.optimization.*",
    "pytorch_transformers.AdamW",
    "geoopt.optim.*",
    "galore_torch.*",
    "fused_adam.*",
    "deepspeed.ops.adam.FusedAdam",
    "deepspeed.ops.lamb.FusedLamb",
    "mmcv.runner.build_optimizer",
    "muon.*",
)

OPTIMIZERS: tuple[Optimizer, ...] = (
    *(Optimizer(name) for name in _DRIVEN),
    Optimizer("torch.optim.LBFGS", False, _CLOSURE, closure=True),
    Optimizer("hessianfree.*", False, _CLOSURE, closure=True),
    Optimizer("pytorch_minimize.*", False, _CLOSURE, closure=True),
    Optimizer("torch_optimizer.Adahessian", False, _SECOND),
    Optimizer("pytorch_optimizer.AdaHessian", False, _SECOND),
    Optimizer("timm.optim.Adahessian", False, _SECOND, marked=True),
    Optimizer("timm.optim.adahessian.Adahessian", False, _SECOND, marked=True),
    Optimizer("pytorch_optimizer.SAM", False, _TWICE),
    Optimizer("pytorch_optimizer.GSAM", False, _TWICE),
    Optimizer("pytorch_optimizer.WSAM", False, _TWICE),
    Optimizer("sam.SAM", False, _TWICE),
    Optimizer("pytorch_optimizer.LOMO", False, _BACKWARD),
    Optimizer("lomo_optim.*", False, _BACKWARD),
    Optimizer(
        "torch.distributed.optim.DistributedOptimizer",
        False,
        "its parameters are remote",
    ),
    Optimizer(
        "torch.distributed.optim.PostLocalSGDOptimizer",
        False,
        "it averages inside step",
    ),
    Optimizer("apex.fp16_utils.FP16_Optimizer", False, _SCALES),
    Optimizer("apex.contrib.optimizers.*", False, _SCALES),
    Optimizer("fairseq.optim.fp16_optimizer.*", False, _SCALES),
    Optimizer("deepspeed.*", False, _SCALES),
    Optimizer("colossalai.*", False, _SCALES),
    Optimizer(
        "horovod.torch.DistributedOptimizer",
        False,
        "it averages gradients inside step",
    ),
    Optimizer("fairscale.optim.OSS", False, _SHARDS),
    Optimizer("fairscale.optim.oss.OSS", False, _SHARDS),
    Optimizer(
        "fairscale.optim.AdaScale",
        False,
        "it measures the gradients inside backward",
    ),
    Optimizer("fairscale.optim.Adam", False, _SCALES),
    Optimizer(
        "opacus.*",
        False,
        "it clips the gradients of single samples inside step, which no scaler "
        "unscales",
        attaches=True,
    ),
    Optimizer("torch_xla.*", False, "it averages gradients outside of step"),
    *(
        Optimizer(f"{framework}.*", False, _OTHER)
        for framework in (
            "tensorflow",
            "keras",
            "mxnet",
            "paddle",
            "chainer",
            "autograd",
            "mindspore",
            "oneflow",
            "jittor",
            "jax",
            "optax",
        )
    ),
)

NOT_OPTIMIZERS: tuple[str, ...] = (
    "torch.optim.Optimizer",
    "torch.optim.optimizer.Optimizer",
    "torch.optim.swa_utils.AveragedModel",
)
"""Below those packages, but no optimizers: base classes and helpers."""
SECOND_ORDER_MARK = "is_second_order"
"""What optimizers say of themselves that differentiate the gradients again (timm's convention);
those of torch, and the driven ones of the table, do not have it.
"""
SCHEDULERS: tuple[str, ...] = (
    "torch.optim.lr_scheduler",
    "torch.optim.swa_utils.SWALR",
)


@cache
def _rows() -> dict[str, Optimizer]:
    return {row.name: row for row in OPTIMIZERS}


def optimizer(canonical: str | None) -> Optimizer | None:
    """Find the row of a class, or of the package that it is in."""
    if (
        canonical is None
        or canonical.startswith(SCHEDULERS)
        or canonical in NOT_OPTIMIZERS
    ):
        return None
    exact = _rows().get(canonical)
    head, _, last = canonical.rpartition(".")
    if exact is not None or not _called_like_one(last):
        return exact
    while head:
        package = _rows().get(f"{head}.*")
        if package is not None:
            return package
        head = head.rpartition(".")[0]
    return None


def _called_like_one(last: str) -> bool:
    """A class, or a factory such as `create_optimizer_v2`: packages hold helpers as well."""
    return (
        last[:1].isupper()
        or last.startswith("create_optimizer")
        or last == "DistributedOptimizer"
    )
