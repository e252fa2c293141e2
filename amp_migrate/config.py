"""What the user asked for: flags and `[tool.amp-migrate]` joined into one frozen `Settings`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Options of every command; the defaults are those of the command line."""

    dtype: str = "float16"
    """`float16`, `bfloat16` or `auto`."""
    device: str | None = None
    """Accelerator that a program without device code may use (`--device cuda`)."""
    eval: bool = False
    guard_scheduler: bool = False
    target_torch: tuple[int, int] | None = None
    """Oldest torch that the output must run on; None is the current one."""
    unsafe: bool = False
    strict: bool = False
    exclude: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
