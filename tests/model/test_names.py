"""Canonical names, whatever the import form."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.model.naming.names import dotted_name
from amp_migrate.model.program import Program

FORMS = {
    "import torch": ("import torch", "torch.optim.Adam", "torch.optim.Adam"),
    "as": ("import torch as th", "th.optim.Adam", "torch.optim.Adam"),
    "a module": ("import torch.optim as optim", "optim.Adam", "torch.optim.Adam"),
    "from": ("from torch import optim", "optim.Adam", "torch.optim.Adam"),
    "from as": ("from torch import optim as O", "O.Adam", "torch.optim.Adam"),
    "the class": ("from torch.optim import Adam", "Adam", "torch.optim.Adam"),
    "the class as": ("from torch.optim import Adam as A", "A", "torch.optim.Adam"),
    "where it is defined": ("from torch.optim.adam import Adam", "Adam", "torch.optim.Adam"),
    "a star": ("from torch.optim import *", "SGD", "torch.optim.SGD"),
    "a loss by star": ("from torch.nn import *", "CrossEntropyLoss", "torch.nn.CrossEntropyLoss"),
    "the clipper's module": (
        "from torch.nn.utils.clip_grad import clip_grad_norm_",
        "clip_grad_norm_",
        "torch.nn.utils.clip_grad_norm_",
    ),
    "functional": ("import torch.nn.functional as F", "F.nll_loss", "torch.nn.functional.nll_loss"),
    "relative": ("from .models import Net", "Net", ".models.Net"),
    "a parent": ("from .. import models", "models.Net", "..models.Net"),
    "in a function": ("def f():\n    import torch as t", "t.nn", "torch.nn"),
    "a dotted import": (
        "import torch.cuda.amp",
        "torch.cuda.amp.autocast",
        "torch.cuda.amp.autocast",
    ),
    "the mode's module": (
        "from torch.cuda.amp.autocast_mode import autocast",
        "autocast",
        "torch.cuda.amp.autocast",
    ),
}


@pytest.mark.parametrize(("imports", "name", "canonical"), FORMS.values(), ids=FORMS)
def test_one_name_for_all_forms(imports: str, name: str, canonical: str) -> None:
    assert Program(imports + "\n", "m.py").canonical(ast.parse(name, mode="eval").body) == canonical


UNKNOWN = {
    "not imported": ("import torch", "optim.Adam"),
    "a variable": ("import torch", "model.parameters"),
    "a call": ("import torch", "f().optim"),
    "a star of something else": ("from torch.nn import *", "SGD"),
    "a number": ("import torch", "3"),
}


@pytest.mark.parametrize(("imports", "name"), UNKNOWN.values(), ids=UNKNOWN)
def test_other_names_have_none(imports: str, name: str) -> None:
    assert Program(imports + "\n", "m.py").canonical(ast.parse(name, mode="eval").body) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", "a"), ("a.b.c", "a.b.c"), ("a[0].b", None), ("f().b", None), ("1", None)],
)
def test_dotted_names(text: str, expected: str | None) -> None:
    assert dotted_name(ast.parse(text, mode="eval").body) == expected
