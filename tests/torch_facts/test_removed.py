"""What the table says is gone raises on the torch that is installed."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader

from amp_migrate.torch_facts.removed import REMOVED, Removed

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))


@pytest.mark.parametrize("row", REMOVED, ids=lambda row: row.name)
def test_a_call_raises(row: Removed) -> None:
    assert row.gone <= VERSION
    called = getattr(torch, row.name.removeprefix("torch."), None)
    given = (torch.ones(16), 4, 4, 4, torch.ones(4)) if row.without else (torch.ones(2, 2),)
    with pytest.raises((RuntimeError, TypeError)):
        called(*given)  # type: ignore[misc]


def test_with_its_keyword_it_runs() -> None:
    window = torch.hann_window(4)
    assert torch.stft(torch.ones(16), 4, window=window, return_complex=True).is_complex()


def test_iterators_of_loaders_have_no_next() -> None:
    batches = iter(DataLoader([1, 2]))  # type: ignore[arg-type]
    assert not hasattr(batches, "next")
    assert next(batches) == 1
