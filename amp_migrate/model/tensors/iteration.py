"""What a loop gives its variable: rows of tensors, elements of lists, numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Binding, Scope
from amp_migrate.model.tensors.fact import (
    NUMBER,
    UNKNOWN,
    DType,
    Fact,
)
from amp_migrate.torch_facts.methods import KEEPS_DTYPE

if TYPE_CHECKING:
    from amp_migrate.model.tensors.inference import Inference


def iterated(
    inference: Inference, binding: Binding, fact: Fact, scope: Scope
) -> Fact:
    """What a loop gives its variable."""
    value = binding.value
    if value is None:
        return UNKNOWN
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name)):
        return _rows(inference, value, scope)
    place = binding.index
    if value.func.id == "range":
        return NUMBER
    if value.func.id == "enumerate" and value.args:
        return NUMBER if place == 0 else _rows(inference, value.args[0], scope)
    if value.func.id == "zip" and place is not None and place < len(value.args):
        return _rows(inference, value.args[place], scope)
    return _rows(inference, value, scope)


def listed(
    inference: Inference, made: ast.ListComp | ast.GeneratorExp, scope: Scope
) -> Fact:
    """What a comprehension gives: element by element what it goes through, where it only moves
    that, `[one.to(device) for one in (x, y)]`.
    """
    found = inference.of(made.elt, scope)
    if len(made.generators) == 1 and _keeps(made.elt, made.generators[0]):
        whole = inference.of(made.generators[0].iter, scope)
        if whole.elements and whole.element(None).dtypes == found.dtypes:
            return whole
    return found._replace(elements=(), container=True)


def _keeps(element: ast.expr, generator: ast.comprehension) -> bool:
    """`one`, `one.to(device)`, `one.cuda()` of `for one in ...`."""
    if isinstance(element, ast.Call) and isinstance(
        element.func, ast.Attribute
    ):
        if element.func.attr in KEEPS_DTYPE:
            return _keeps(element.func.value, generator)
    target = generator.target
    return (
        isinstance(element, ast.Name)
        and isinstance(target, ast.Name)
        and element.id == target.id
        and not generator.ifs
    )


def _rows(inference: Inference, expr: ast.expr, scope: Scope) -> Fact:
    """The elements of a list, or the rows of a tensor; of anything else they are unseen."""
    fact = inference.of(expr, scope)
    if fact.dtypes == DType.OTHER:
        return inference.unseen(expr)
    return fact.element(None)
