"""What models and functions of other files give where autocast may be on."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from amp_migrate.model.syntax.module import Function
from amp_migrate.model.tensors.fact import DType, Fact
from amp_migrate.model.tensors.results import in_region
from amp_migrate.model.tensors.sequences import returns, unseen_layer

if TYPE_CHECKING:
    from amp_migrate.model.program import Program
    from amp_migrate.model.tensors.inference import Inference


def of_model_elsewhere(
    inference: Inference, program: Program, cls: ast.ClassDef, call: ast.Call
) -> Fact:
    """The output of a model in another file, whose callers there say little of what it gets."""
    forward = program.graph.method(cls, "forward")
    region = inference.where(call)
    if forward is None or region is None:
        return unseen_layer(inference, call)
    return run_elsewhere(inference, program, forward, region)


def run_elsewhere(
    inference: Inference, program: Program, function: Function, region: str
) -> Fact:
    """What a function of another file gives in a region."""
    found = returns(inference.abroad(program, region), function)
    if found.dtypes == DType.UNKNOWN and not found.container:
        # Like one out of sight: layers that nobody follows give half.
        return Fact(in_region(region).dtypes | DType.UNKNOWN)
    return found._replace(dtypes=found.dtypes | DType.UNKNOWN, bounds=None)
