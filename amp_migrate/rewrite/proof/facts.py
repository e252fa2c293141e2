"""What the migrator declares about its rewrite, and what the guard answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from amp_migrate.rewrite.proof.settings import Changed

CheckName = Literal[
    "parses", "additions", "same-program", "comments", "protocol", "stable"
]


@dataclass(frozen=True)
class Declared:
    """An option that a program was given for its AMP (`--switch`)."""

    name: str
    default: str
    statements: frozenset[str]
    """Source of what declares it: a call of `add_argument`, a field."""
    decorators: frozenset[str]
    """Source of the decorators that do, without the `@`."""


@dataclass(frozen=True)
class Introduced:
    """Everything that a rewrite has brought into one module; whatever is not declared here counts
    as a difference.
    """

    scalers: frozenset[str] = frozenset()
    """Every path under which a scaler is read or set: `scaler`, `self.scaler`, `trainer.scaler`."""
    hoisted: frozenset[str] = frozenset()
    """Names given to what had none: to a loss that was the receiver of `.backward()`, to what a
    model gives inside the statement of its loss.
    """
    losses: frozenset[str] = frozenset()
    """Source of what is called for losses that only compute, in statements with hoisted names."""
    names: frozenset[str] = frozenset()
    """Other new names, with or without dots: `use_amp`, `amp_dtype`, `scale_before`."""
    given: frozenset[str] = frozenset()
    """Attributes that another file of the program sets: `scaler` of a base class."""
    imports_torch: bool = False
    """Whether `import torch` was added."""
    torch: str = "torch"
    """The file's name for the torch module."""
    checkpoint_key: str = "scaler"
    savers: frozenset[str] = frozenset()
    """Source of each function that was given a scaler's state, to save it as a keyword."""
    float_casts: int = 0
    """How many `.float()` calls were added; exactly so many must be found."""
    sequences: frozenset[str] = frozenset()
    """Every `nn.Sequential` whose last layer is called by itself, on float values."""
    regions: frozenset[str] | None = None
    """Source of each emitted `with` header, without `with` and colon; None accepts any well-formed
    autocast.
    """
    constructors: frozenset[str] | None = None
    """Source of each emitted `GradScaler(...)` call, disabled ones too; None accepts any
    well-formed one.
    """
    values: frozenset[str] | None = None
    """Source of each expression given to one of `names`; None accepts any that has no effect."""

    settings: frozenset[Changed] = frozenset()
    """Settings of frameworks that were changed, and what they were."""

    decorators: frozenset[str] = frozenset()
    """Source of each decorator that a method was given, without the `@`."""

    option: Declared | None = None
    """The program's own switch, where this module declares it."""

    evaluated: frozenset[str] = frozenset()
    """Expressions that the original evaluated for AMP of another kind (`args.fp16` of apex)."""

    @property
    def parameters(self) -> frozenset[str]:
        """Names that a new parameter or keyword argument may have."""
        return frozenset(
            name for name in self.scalers | self.names if "." not in name
        )

    @property
    def bindings(self) -> frozenset[str]:
        """Plain names that the rewrite binds somewhere."""
        imported = (
            frozenset({self.torch}) if self.imports_torch else frozenset()
        )
        return self.parameters | self.hoisted | imported


@dataclass(frozen=True, order=True)
class Failure:
    """One check that did not hold; `line` is 1-based and counts in the output."""

    check: CheckName
    line: int
    message: str
