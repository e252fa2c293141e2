"""What PyTorch no longer has: a program that calls it runs on an older torch alone.

Source: the release notes of the versions named; each row is tried on the torch that is installed.
"""

from __future__ import annotations

from typing import TypeAlias

from amp_migrate.records import NamedTuple

Version: TypeAlias = tuple[int, int]


class Removed(NamedTuple):
    """A function that is gone."""

    name: str
    gone: Version
    """The first torch that raises."""
    without: str | None = None
    """Only calls without this keyword raise."""


REMOVED: tuple[Removed, ...] = (
    Removed("torch.btrifact", (1, 2)),
    Removed("torch.eig", (2, 0)),
    Removed("torch.fft", (1, 8)),
    Removed("torch.gels", (1, 2)),
    Removed("torch.gesv", (1, 2)),
    Removed("torch.ifft", (1, 8)),
    Removed("torch.irfft", (1, 8)),
    Removed("torch.lstsq", (2, 0)),
    Removed("torch.matrix_rank", (2, 0)),
    Removed("torch.potrf", (1, 2)),
    Removed("torch.rfft", (1, 8)),
    Removed("torch.solve", (2, 0)),
    Removed("torch.stft", (2, 0), without="return_complex"),
    Removed("torch.symeig", (2, 0)),
)
NEXT_OF_LOADERS: Version = (1, 13)
"""Since then iterators of a DataLoader have `__next__`, and no `next`."""
