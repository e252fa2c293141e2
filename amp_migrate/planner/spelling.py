"""The text of every AMP construct that is emitted, in the torch generation and under the module
name of the file.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from amp_migrate.config import Settings
from amp_migrate.model.files.old_calls import removed_in
from amp_migrate.model.syntax.module import Module, Scope
from amp_migrate.torch_facts.devices import DEVICES

NEW_API = (2, 4)
BF16 = "has_bf16"
"""Whether the GPU computes bfloat16: asked beside the program's own switch."""
_SCALERS = ("scaler", "grad_scaler", "amp_scaler")
_LOSSES = ("loss", "total_loss", "amp_loss")


_OTHERS = frozenset(f'"{row.name}"' for row in DEVICES if row.name != "cuda")


@dataclass(frozen=True)
class Switch:
    """Source text for the device type and for `enabled=`; `enabled` None means always on."""

    device_type: str
    enabled: str | None


@dataclass(frozen=True)
class Spelling:
    """How one file writes AMP."""

    torch: str
    dtype: str
    new_api: bool

    def choice(
        self, switch: Switch, prefix: str, option: str | None = None
    ) -> tuple[str, ...]:
        """The statements that choose between bfloat16 and float16 (`--dtype auto`); `option` is
        how the program's own switch is read (`--switch`).
        """
        if self.dtype != "auto":
            return ()
        use, dtype, th = f"{prefix}use_amp", f"{prefix}amp_dtype", self.torch
        home, enabled = (
            "xpu" if switch.device_type == '"xpu"' else "cuda",
            switch.enabled,
        )
        has = f"{th}.cuda.get_device_capability() >= (8, 0)"
        if self._is_new(
            switch.device_type
        ):  # older ones say yes where bfloat16 is emulated
            has = f"{th}.{home}.is_bf16_supported(including_emulation=False)"
        if option is not None:
            asked = f'{option} != "off"'
            wanted = f'{option} == "bfloat16" or {BF16} and {option} == "auto"'
            return (
                f"{use} = {asked if enabled is None else f'{asked} and {enabled}'}",
                f"{BF16} = {use} and {has}",
                f"{dtype} = {th}.bfloat16 if {wanted} else {th}.float16",
            )
        bfloat16 = f"{th}.bfloat16 if {use} and {has} else {th}.float16"
        return (
            f"{use} = {enabled or f'{th}.cuda.is_available()'}",
            f"{dtype} = {bfloat16}",
        )

    def made(
        self, name: str, switch: Switch, option: str | None
    ) -> tuple[str, ...]:
        """The statements that make a scaler, `self.scaler` or `scaler`."""
        holder = name.rpartition(".")[0]
        prefix = f"{holder}." if holder else ""
        scaler = self.scaler(switch.device_type, switch.enabled, prefix)
        return (*self.choice(switch, prefix, option), f"{name} = {scaler}")

    def scaler(
        self, device_type: str, enabled: str | None, prefix: str = ""
    ) -> str:
        """A GradScaler; `device_type` and `enabled` are source text, `prefix` is `self.` for
        attributes.
        """
        if self.dtype == "auto":
            enabled = (
                f"{prefix}use_amp and {prefix}amp_dtype is {self.torch}.float16"
            )
        switch = [] if enabled is None else [f"enabled={enabled}"]
        if self._is_new(device_type):
            return f"{self.torch}.amp.GradScaler({', '.join([device_type, *switch])})"
        return f"{self.torch}.cuda.amp.GradScaler({', '.join(switch)})"

    def _is_new(self, device_type: str) -> bool:
        """Whether the names of `torch.amp` are written: `torch.cuda.amp` is about CUDA alone."""
        return self.new_api or device_type in _OTHERS

    def autocast(
        self,
        device_type: str,
        enabled: str | None,
        prefix: str = "",
        *,
        cached: bool = True,
    ) -> str:
        """The context of a region; `cached` False: it keeps no half copies of weights."""
        switch = [] if enabled is None else [f"enabled={enabled}"]
        switch += [] if cached else ["cache_enabled=False"]
        chosen = (
            f"{prefix}amp_dtype"
            if self.dtype == "auto"
            else f"{self.torch}.{self.dtype}"
        )
        if self._is_new(device_type):
            return f"{self.torch}.autocast({', '.join([device_type, f'dtype={chosen}', *switch])})"
        dtype = [] if self.dtype == "float16" else [f"dtype={chosen}"]
        return f"{self.torch}.cuda.amp.autocast({', '.join([*dtype, *switch])})"

    def no_autocast(self, device_type: str) -> str:
        """The context of what is computed in float32 inside of a region."""
        if self._is_new(device_type):
            return f"{self.torch}.autocast({device_type}, enabled=False)"
        return f"{self.torch}.cuda.amp.autocast(enabled=False)"


def spelling(
    module: Module, settings: Settings, *, new_api: bool
) -> tuple[Spelling, bool]:
    """The file's way to write AMP, and whether `import torch` has to be added for it."""
    bound = module.root.bindings
    local = module.imports.local("torch")
    known = local is not None and local in bound
    if (
        not known
        and "torch" not in bound
        and module.imports.canonical(ast.Name("torch", ast.Load())) == "torch"
    ):
        local, known = "torch", "torch" in module.identifiers
    name = local if known and local else "torch"
    return Spelling(name, settings.dtype, new_api), not known


def _is_for_older(module: Module) -> bool:
    """Whether the file itself, in a project that does not say its torch, runs on torch before 2.3
    alone, or writes AMP as that did: what was right there stays right.
    """
    gone = removed_in(module)
    return (
        "torch.cuda.amp" in module.text or gone is not None and gone < NEW_API
    )


class Spellings:
    """How each file of a program writes AMP: in one generation, for one torch runs them all."""

    def __init__(self, settings: Settings, files: Sequence[Module]) -> None:
        """`files`: those of the program."""
        self.settings = settings
        self._files = files
        self._known: dict[int, tuple[Module, Spelling, bool]] = {}

    def of(self, scope: Scope) -> Spelling:
        """The spelling in the file of `scope`."""
        return self._of(scope.module)[1]

    def imports_torch(self, module: Module) -> bool:
        """Whether `import torch` has to be added to a file before AMP can be written there."""
        return self._of(module)[2]

    @cached_property
    def _is_new(self) -> bool:
        target = self.settings.target_torch
        if target is not None:
            return target >= NEW_API
        return not any(map(_is_for_older, self._files))

    def _of(self, module: Module) -> tuple[Module, Spelling, bool]:
        if id(module) not in self._known:
            found = spelling(module, self.settings, new_api=self._is_new)
            self._known[id(module)] = (module, *found)
        return self._known[id(module)]


def free_name(module: Module, names: tuple[str, ...] = _SCALERS) -> str:
    """The first of `names` that the module uses for nothing."""
    numbered = (f"{names[0]}_{i}" for i in range(2, 100))
    return next(n for n in (*names, *numbered) if n not in module.identifiers)


def loss_name(module: Module, taken: set[str]) -> str:
    """A name for a loss that had none; a fresh one in its scope."""
    return next(
        n
        for n in (*_LOSSES, *(f"loss_{i}" for i in range(2, 100)))
        if n not in taken
    )
