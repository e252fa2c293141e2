"""Sparse tensors out of other files: what a loader makes there, a model multiplies."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.calls.bodies_abroad import body_abroad
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import Fact
from amp_migrate.model.tensors.sequences import returns

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference


def with_sparse(
    inference: Inference, call: ast.Call, scope: Scope, fact: Fact
) -> Fact:
    """What a call outside of every region gives, and which of it is sparse."""
    found = body_abroad(inference.program, call, scope)
    if found is None or not _speaks_of_sparse(found[0]):
        return fact
    made = returns(inference.abroad(found[0], None), found[1])
    return _like(fact, made) if _is_sparse(made) else fact


def _speaks_of_sparse(program: Program) -> bool:
    return any("sparse" in one for one in program.module.identifiers)


def _is_sparse(fact: Fact) -> bool:
    return fact.sparse or any(_is_sparse(one) for one in fact.elements)


def _like(fact: Fact, made: Fact) -> Fact:
    """The dtypes of one, the form of the other."""
    return fact._replace(
        elements=tuple(_like(fact, one) for one in made.elements),
        container=made.container,
        sparse=made.sparse,
    )
