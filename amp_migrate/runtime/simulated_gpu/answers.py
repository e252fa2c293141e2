"""What `torch.cuda` answers about the simulated GPU: one device, with bfloat16, that has
no queue.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from amp_migrate.runtime.simulated_gpu import tensor_types
from amp_migrate.runtime.simulated_gpu.memory import INDEX

CAPABILITY = (8, 0)
MEMORY = 16 * 2**30
NAME = "simulated GPU"
_COUNT = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
_owner: list[int] = []


class Stream:
    """Work is done at once, so every stream has always finished."""

    device = torch.device("cpu")
    cuda_stream = stream_id = device_index = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Stream:  # noqa: PYI034 - typing.Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def query(self) -> bool:
        """Whether all work is done."""
        return True

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being made of what is done."""
        return False

    def record_event(self, event: Any = None) -> Any:
        """Note the time."""
        event = event or Event()
        event.record()
        return event

    def _done(self, *_: Any) -> None:
        pass

    synchronize = wait_stream = wait_event = _done


class Event:
    """A moment."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._time = 0.0

    def record(self, *_: Any) -> None:
        """Note the time."""
        self._time = time.perf_counter()

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds until `other`."""
        return 1e3 * float(other._time - self._time)

    def query(self) -> bool:
        """Whether it has come."""
        return True

    def _done(self, *_: Any) -> None:
        pass

    synchronize = wait = _done


def install() -> None:
    """Put the answers in the place of `torch.cuda`'s and `torch.accelerator`'s, for good."""
    for name, answer in _ANSWERS.items():
        setattr(torch.cuda, name, _answering(answer))
    for name, answer in _ACCELERATOR.items():
        if hasattr(torch, "accelerator"):
            setattr(torch.accelerator, name, _answering(answer))
    core: Any = torch._C
    core._cuda_getDevice = _answering(INDEX)
    core._cuda_getCurrentRawStream = _answering(0)
    core._cuda_isInBadFork = _answering(False)
    _seeds()
    cuda: Any = torch.cuda
    cuda._lazy_init = cuda.init = _lazy_init
    cuda.Stream = torch.Stream = Stream  # type: ignore[misc, assignment]
    cuda.Event = torch.Event = Event  # type: ignore[misc, assignment]
    cuda.stream = cuda.StreamContext = lambda stream=None: stream or Stream()
    tensor_types.install()
    torch.Generator = _Generator  # type: ignore[misc]
    _parallel()
    backends: Any = torch.backends
    backends.cudnn.is_available = _answering(True)
    backends.cudnn.version = _answering(None)
    backends.cudnn.is_acceptable = _answering(
        False
    )  # so that no layer packs its weights for it
    kind: Any = torch.Tensor
    kind.pin_memory = lambda tensor, *_, **__: tensor
    kind.is_pinned = _answering(False)
    kind.record_stream = _answering(None)


def _answering(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer() if isinstance(answer, type) else answer


def _parallel() -> None:
    """DataParallel on one GPU hands everything to it; gloo stands in for nccl."""
    parallel: Any = torch.nn.parallel
    parallel.comm.scatter = _scattered
    if not torch.distributed.is_available():
        return
    start = torch.distributed.init_process_group

    def started(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("device_id", None)
        start("gloo" if backend in (None, "nccl") else backend, *args, **kwargs)

    torch.distributed.init_process_group = started
    logger: Any = torch._C._distributed_c10d.Logger
    logger.set_runtime_stats_and_log = _answering(
        None
    )  # no timer counts on this device


def _scattered(tensor: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor]:
    return (tensor.cuda(),)


def _seeds() -> None:
    """The simulated GPU draws from the CPU's generator."""
    cuda: Any = torch.cuda
    cuda.get_rng_state = lambda *_, **__: torch.get_rng_state()
    cuda.get_rng_state_all = lambda: [torch.get_rng_state()]
    cuda.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    cuda.set_rng_state_all = lambda states: torch.set_rng_state(states[0])
    cuda.initial_seed = torch.initial_seed


def own() -> None:
    """The simulated GPU belongs to this process: those that it forks may not use it."""
    _owner[:] = [os.getpid()]


def _lazy_init() -> None:
    """CUDA does not survive a fork."""
    if _owner and os.getpid() not in _owner:
        message = (
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
            "you must use the 'spawn' start method"
        )
        raise RuntimeError(message)


class _Generator(torch._C.Generator):
    """Generators of the simulated GPU are the CPU's."""

    def __new__(cls, device: Any = None) -> Any:
        return torch._C.Generator("cpu")


def _properties() -> Any:
    major, minor = CAPABILITY
    return SimpleNamespace(
        name=NAME, major=major, minor=minor, total_memory=MEMORY, multi_processor_count=1,
        is_integrated=False, is_multi_gpu_board=False, warp_size=32, gcnArchName="",
        max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536,
        shared_memory_per_block=49152, L2_cache_size=2**20, uuid="",
    )  # fmt: skip


_ANSWERS: dict[str, Any] = {
    "is_available": True,
    "is_initialized": True,
    "device_count": _COUNT,
    "current_device": INDEX,
    "set_device": None,
    "_exchange_device": INDEX,
    "_maybe_exchange_device": INDEX,
    "synchronize": None,
    "get_device_name": NAME,
    "get_device_capability": CAPABILITY,
    "get_device_properties": _properties(),
    "get_arch_list": ["sm_80"],
    "is_bf16_supported": True,
    "is_tf32_supported": True,
    "current_stream": Stream(),
    "default_stream": Stream(),
    "set_stream": None,
    "is_current_stream_capturing": False,
    "can_device_access_peer": False,
    "manual_seed": None,
    "manual_seed_all": None,
    "seed": None,
    "seed_all": None,
    "_is_in_bad_fork": False,
    "empty_cache": None,
    "ipc_collect": None,
    "memory_allocated": 0,
    "max_memory_allocated": 0,
    "memory_reserved": 0,
    "max_memory_reserved": 0,
    "memory_cached": 0,
    "max_memory_cached": 0,
    "memory_stats": dict,
    "memory_snapshot": list,
    "memory_summary": "",
    "mem_get_info": (MEMORY, MEMORY),
    "reset_peak_memory_stats": None,
    "reset_max_memory_allocated": None,
    "reset_max_memory_cached": None,
    "reset_accumulated_memory_stats": None,
    "set_per_process_memory_fraction": None,
    "utilization": 0,
    "temperature": 0,
    "power_draw": 0,
}
_ACCELERATOR: dict[str, Any] = {
    "is_available": True,
    "device_count": _COUNT,
    "current_accelerator": torch.device("cuda"),
    "current_device_index": INDEX,
    "current_device_idx": INDEX,
    "set_device_index": None,
    "set_device_idx": None,
    "current_stream": Stream(),
    "set_stream": None,
    "synchronize": None,
    "empty_cache": None,
    "memory_allocated": 0,
    "max_memory_allocated": 0,
    "memory_reserved": 0,
    "max_memory_reserved": 0,
    "memory_stats": dict,
    "reset_peak_memory_stats": None,
    "get_memory_info": (MEMORY, MEMORY),
}
