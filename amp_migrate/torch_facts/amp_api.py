"""The API of AMP in both generations: names, order of parameters, and the versions that have it.

Sources: torch's own signatures from 1.6 to 2.13, amp-pitfalls section 6 for the versions.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, TypeAlias, get_args

from amp_migrate.records import NamedTuple

Version: TypeAlias = tuple[int, int]
Role: TypeAlias = Literal["autocast", "GradScaler", "custom_fwd", "custom_bwd"]
ROLES: tuple[str, ...] = get_args(Role)


class Callable(NamedTuple):
    """One public name of the API."""

    name: str
    role: Role
    parameters: tuple[str, ...]
    """Those that may be given by position, in order."""
    since: Version
    device: str = ""
    """The device type that the name implies."""
    dtype: str = ""
    """The dtype of an autocast that names none."""
    deprecated: Version | None = None
    """The first version that warns about it."""


_REGION = ("device_type", "dtype", "enabled", "cache_enabled")
_OLD_REGION = ("enabled", "dtype", "cache_enabled")
SCALE = (
    "init_scale",
    "growth_factor",
    "backoff_factor",
    "growth_interval",
    "enabled",
)
_SCALER = ("device", *SCALE)
_OLD = (2, 4)

API: tuple[Callable, ...] = (
    Callable("torch.autocast", "autocast", _REGION, (1, 10)),
    Callable("torch.amp.autocast", "autocast", _REGION, (1, 12)),
    Callable(
        "torch.cuda.amp.autocast",
        "autocast",
        _OLD_REGION,
        (1, 6),
        "cuda",
        "float16",
        _OLD,
    ),
    Callable(
        "torch.cpu.amp.autocast",
        "autocast",
        _OLD_REGION,
        (1, 10),
        "cpu",
        "bfloat16",
        _OLD,
    ),
    Callable("torch.GradScaler", "GradScaler", _SCALER, (2, 3)),
    Callable("torch.amp.GradScaler", "GradScaler", _SCALER, (2, 3)),
    Callable(
        "torch.cuda.amp.GradScaler",
        "GradScaler",
        SCALE,
        (1, 6),
        "cuda",
        "",
        _OLD,
    ),
    Callable(
        "torch.cpu.amp.GradScaler",
        "GradScaler",
        SCALE,
        (2, 3),
        "cpu",
        "",
        _OLD,
    ),
    Callable("torch.amp.custom_fwd", "custom_fwd", ("fwd",), (2, 4)),
    Callable("torch.amp.custom_bwd", "custom_bwd", ("bwd",), (2, 4)),
    Callable(
        "torch.cuda.amp.custom_fwd",
        "custom_fwd",
        ("fwd",),
        (1, 6),
        "cuda",
        "",
        _OLD,
    ),
    Callable(
        "torch.cuda.amp.custom_bwd",
        "custom_bwd",
        ("bwd",),
        (1, 6),
        "cuda",
        "",
        _OLD,
    ),
)

MODULES: tuple[str, ...] = ("torch.amp", "torch.cuda.amp", "torch.cpu.amp")
"""The modules whose members are AMP's alone."""
DEPRECATED: dict[str, Callable] = {
    row.name: row for row in API if row.deprecated is not None
}
"""The rows of the old generation, by their names."""
_ALWAYS: Version = (1, 6)
_FILES = ("autocast_mode", "grad_scaler")
_INTERNAL = (*_FILES, "OptState", "autocast_decorator")
MEMBERS: dict[str, dict[str, Version]] = {
    module: dict.fromkeys(_INTERNAL, _ALWAYS)
    | {
        row.name.rpartition(".")[2]: row.since
        for row in API
        if row.name.rpartition(".")[0] == module
    }
    for module in MODULES
}
"""What stands in each of these modules, and since when."""
MEMBERS["torch.amp"]["is_autocast_available"] = (2, 4)
MEMBERS["torch.cuda.amp"]["common"] = _ALWAYS
MEMBERS["torch.cuda.amp"]["amp_definitely_not_available"] = _ALWAYS
FILES: tuple[str, ...] = (
    *MODULES,
    *(f"{module}.{name}" for module in MODULES for name in _FILES),
    "torch.cuda.amp.common",
)
"""Modules that people call in place of the class of that name."""
NEVER = {
    "torch.cuda.autocast": "torch.cuda.amp.autocast",
    "torch.cuda.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.cuda.custom_fwd": "torch.cuda.amp.custom_fwd",
    "torch.cuda.custom_bwd": "torch.cuda.amp.custom_bwd",
    "torch.nn.autocast": "torch.autocast",
    "torch.nn.GradScaler": "torch.amp.GradScaler",
}
"""Names that people write and torch never had, and the right ones."""
OLD_STATE: dict[str, tuple[str, str]] = {
    "torch.get_autocast_gpu_dtype": ("get_autocast_dtype", "cuda"),
    "torch.get_autocast_cpu_dtype": ("get_autocast_dtype", "cpu"),
    "torch.is_autocast_cpu_enabled": ("is_autocast_enabled", "cpu"),
    "torch.set_autocast_gpu_dtype": ("set_autocast_dtype", "cuda"),
    "torch.set_autocast_cpu_dtype": ("set_autocast_dtype", "cpu"),
    "torch.set_autocast_cpu_enabled": ("set_autocast_enabled", "cpu"),
}
"""Old functions that read or set the state of autocast, the new ones, and their device."""
AMP_PREFIXES: tuple[str, ...] = (
    "torch.amp.",
    "torch.cuda.amp",
    "torch.cpu.amp",
    "torch.autocast",
    "torch.GradScaler",
    "apex.amp",
    "apex.fp16_utils",
)
"""How the names of all that belongs to AMP, torch's or apex's, begin."""

SHARDED_SCALERS: tuple[str, ...] = (
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
    "torch.distributed.fsdp.ShardedGradScaler",
    "fairscale.optim.grad_scaler.ShardedGradScaler",
)
SCALER_METHODS: tuple[str, ...] = ("scale", "unscale_", "step", "update")
SCALER_STATE: tuple[str, ...] = (
    "state_dict",
    "load_state_dict",
    "get_scale",
    "is_enabled",
)

CACHE_KEEPS_GRADIENTS: Version = (2, 10)
"""Since when weights that autocast casts under `no_grad` are cast again where gradients count."""
CACHE_SWITCH: Version = (1, 10)
"""Since when autocast takes `cache_enabled`."""
FIRST_AMP: Version = (1, 6)
DEVICE_TYPE_REGION: Version = (1, 10)
"""`torch.autocast(device_type)`."""
DEVICE_SCALER: Version = (2, 3)
"""`torch.amp.GradScaler(device)`."""
DEVICE_DECORATORS: Version = (2, 4)
"""`torch.amp.custom_fwd(device_type=...)`."""
DTYPE_IN_BACKWARD: Version = (2, 5)
"""Autograd's threads know the dtype of the region."""

HALVES: dict[str, str] = {
    "torch.float16": "float16",
    "torch.half": "float16",
    "torch.HalfTensor": "float16",
    "torch.cuda.HalfTensor": "float16",
    "torch.bfloat16": "bfloat16",
    "torch.BFloat16Tensor": "bfloat16",
    "torch.cuda.BFloat16Tensor": "bfloat16",
}
FLOATS: dict[str, str] = {
    "torch.float32": "float32",
    "torch.float": "float32",
    "torch.FloatTensor": "float32",
    "torch.cuda.FloatTensor": "float32",
    "torch.float64": "float64",
    "torch.double": "float64",
    "torch.DoubleTensor": "float64",
    "torch.cuda.DoubleTensor": "float64",
}
INTEGERS: tuple[str, ...] = (
    "torch.int8",
    "torch.int16",
    "torch.int32",
    "torch.int64",
    "torch.uint8",
    "torch.bool",
    "torch.int",
    "torch.long",
    "torch.short",
    "torch.LongTensor",
    "torch.IntTensor",
    "torch.BoolTensor",
    "torch.ByteTensor",
    "torch.cuda.LongTensor",
    "torch.cuda.IntTensor",
)
RAW_POINTER = "data_ptr"
"""The method that gives the address of a tensor's bytes, which say nothing of their dtype."""
EXTENSIONS = "torch.utils.cpp_extension."
"""What compiles and loads modules whose functions know nothing of autocast."""
COMPLEX = (
    "torch.complex32",
    "torch.complex64",
    "torch.complex128",
    "torch.chalf",
    "torch.cfloat",
    "torch.cdouble",
)
FLOAT32 = ("torch.float32", "torch.float", "numpy.float32")
DOUBLES = (
    "torch.float64",
    "torch.double",
    "torch.DoubleTensor",
    "torch.cuda.DoubleTensor",
)
SETS_DTYPE = ("torch.set_default_dtype", "torch.set_default_tensor_type")
"""What makes all tensors of another dtype from there on."""
FINFO = ("torch.finfo", "numpy.finfo")
LIMITS = (*FINFO, "torch.iinfo")
"""What tells the limits of a dtype, as numbers."""
FLOAT32_LIMITS = {
    "min": -(2.0**128 - 2.0**104),
    "max": 2.0**128 - 2.0**104,
    "eps": 2.0**-23,
    "tiny": 2.0**-126,
    "smallest_normal": 2.0**-126,
}
"""What `torch.finfo(torch.float32)` says."""

SWITCH_VALUES = ("off", "float16", "bfloat16", "auto")
"""What an option of a program says about its AMP."""
HALF_MAX = 65504.0
"""The largest float16."""
HALF_NORMAL = 2.0**-14
"""The smallest float16 with all its digits: what is below is counted in steps of 2**-24."""
HALF_EPSILON = 2.0**-12
"""Half of the distance between 1 and the float16 below it: 1 minus less than this is 1."""
BFLOAT16_EPSILON = 2.0**-9


@cache
def _by_name() -> dict[str, Callable]:
    return {row.name: row for row in API}


def callable_named(canonical: str | None) -> Callable | None:
    """Find the row of a canonical name."""
    return None if canonical is None else _by_name().get(canonical)


def names(role: Role) -> tuple[str, ...]:
    """All names with one role, the new generation first."""
    return tuple(row.name for row in API if row.role == role)


def parameter_place(canonical: str, parameter: str) -> int | None:
    """Where a parameter stands by position; None where it does not exist."""
    row = callable_named(canonical)
    if row is None or parameter not in row.parameters:
        return None
    return row.parameters.index(parameter)


OWN_OPTIONS = {
    "amp": True,
    "use_amp": True,
    "enable_amp": True,
    "amp_enabled": True,
    "with_amp": True,
    "fp16": True,
    "use_fp16": True,
    "mixed_precision": True,
    "no_amp": False,
    "disable_amp": False,
    "no_fp16": False,
}
"""What programs call their own option for AMP, and whether it turns AMP on."""

OWN_CHOICES = frozenset(
    ("amp", "mixed_precision", "precision", "amp_level", "amp_opt_level")
)
"""What programs call an option that takes one of several precisions, or levels of apex."""
_HALVES = ("amp", "fp16", "float16", "16", "16-mixed", "mixed", "half")
MIXED = (*_HALVES, "o1", "o2", "o3")
FULL = (
    "fp32",
    "float32",
    "32",
    "32-true",
    "full",
    "single",
    "no",
    "none",
    "o0",
)
"""Values of such an option, of mixed precision and of none."""
