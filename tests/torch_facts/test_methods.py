"""The tables of methods name what the installed torch has."""

from __future__ import annotations

import pytest
import torch

from amp_migrate.torch_facts import gradients, methods, ops

TABLES = {
    name: table
    for module in (gradients, methods)
    for name, table in vars(module).items()
    if isinstance(table, frozenset)
}
# `format` and `append` are methods of what is no tensor; kernels have names of their own, and so
# have functions of NumPy.
MIXED = {"HARMLESS", "LEAVES_MODULE", "PICKS_OF_ARRAYS", "VIEWS_OF_ARRAYS", "PRODUCTS"}
MIXED |= {"ARRAYS_BY_INDEX"}
# Tables of rows, by their names.
ROWS = {"KEEPS_SHAPE", "MAKES_DIMENSIONS", "REDUCTIONS", "SIZED", "TAKES_SIZES"}
# Methods of distributions, and of descriptors of tensors.
GONE = {"entropy", "log_prob", "__get__", "__set__"}


@pytest.mark.parametrize("name", sorted(TABLES.keys() - MIXED - ROWS))
def test_every_word_is_one_of_torch(name: str) -> None:
    homes = (torch.Tensor, torch, torch.nn.functional, torch.linalg, torch.nn)
    homes = (*homes, torch.nn.Module, torch.autograd, torch._C._FunctionBase)
    homes = (*homes, torch.autograd.function.FunctionCtx, torch._utils)
    strange = {word for word in TABLES[name] if not any(hasattr(home, word) for home in homes)}
    assert strange <= GONE


@pytest.mark.parametrize("name", sorted(TABLES))
def test_no_table_is_empty(name: str) -> None:
    assert len(TABLES[name]) >= 2


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_word_is_a_row(name: str) -> None:
    assert TABLES[name] <= {row.name for row in ops.ROWS}
