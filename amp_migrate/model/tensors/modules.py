"""What layers of torch.nn and models give."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amp_migrate.model.naming.one_of_several import classes_brought
from amp_migrate.model.syntax.module import Scope
from amp_migrate.model.tensors.fact import UNKNOWN, DType, Fact, join
from amp_migrate.model.tensors.other_files import of_model_elsewhere
from amp_migrate.model.tensors.results import in_region
from amp_migrate.model.tensors.sequences import (
    returns,
    sequential,
    through_layer,
    unseen_layer,
)
from amp_migrate.model.values.kinds import Kind, Value
from amp_migrate.torch_facts import layers

if TYPE_CHECKING:
    from amp_migrate.model.tensors.inference import Inference


def is_of_any_class(value: Value) -> bool:
    """Whether nothing tells more of a model than that it is one."""
    return (
        value.kind is Kind.MODEL
        and value.cls is None
        and value.foreign is None
        and value.name in layers.SAY_NO_CLASS
    )


def of_module(
    inference: Inference, value: Value, call: ast.Call, scope: Scope
) -> Fact:
    """The output of a layer of torch.nn or of a model in sight; of one of several classes, what any
    of them gives.
    """
    found = _of_class(inference, value, call, scope)
    region = inference.where(call)
    if region is None or not (value.mixed or value.others):
        return found
    if value.others:
        alike = value.others
        more = (_of_class(inference, one, call, scope) for one in alike)
        found = join([found, *more])
    if not value.mixed:
        return found
    others = [
        _of_class(inference, one, call, scope)
        for one in classes(inference, value)
    ]
    unseen = Fact(in_region(region).dtypes | DType.UNKNOWN)
    return join([found, *(others or [unseen])])


def classes(inference: Inference, value: Value) -> Iterator[Value]:
    """What else an object may be of whose class several import statements bring."""
    for home, one in classes_brought(inference.program, value):
        is_own = home is inference.program
        cls, foreign = (one, None) if is_own else (None, (home, one))
        yield value._replace(cls=cls, foreign=foreign)


def _of_class(
    inference: Inference, value: Value, call: ast.Call, scope: Scope
) -> Fact:
    """The same of the class that is known."""
    program = inference.program
    if value.cls is not None:
        forward = program.graph.method(value.cls, "forward")
        inner = inference.called_at(call)
        if forward is None:
            return unseen_layer(inference, call)
        return returns(inner, forward)
    if value.foreign is not None:
        return of_model_elsewhere(inference, *value.foreign, call)
    given = inference.of(call.args[0], scope) if call.args else UNKNOWN
    name = value.name or ""
    if name.endswith(".Sequential") and isinstance(value.origin, ast.Call):
        return sequential(inference, value.origin, given, call)
    return through_layer(inference, name, given, call)
